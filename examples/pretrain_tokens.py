"""Train a small GPT on token shards with 2 ranks, as nanoGPT does; stop it, and go on where it stopped.

    torchrun --standalone --nproc-per-node=2 examples/pretrain_tokens.py

The lines between the rules take the place of nanoGPT's `get_batch`, which draws windows with replacement, so it has no
epoch, and begins anew after a stop. The shards are made up; a token mostly decides the next. At the end all ranks count
the windows that they have trained on: each must occur once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

BLOCK, BATCH, WORDS, SHARDS = 64, 8, 64, 3
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# ----------------------------------------------------------------------------------------------------------------------

import feedpipe as fp  # noqa: E402


def data(folder: Path, checkpoint: Path) -> fp.Loader[dict[str, Tensor]]:
    tokens = fp.read_tokens(folder / "*.bin", dtype="uint16", length=BLOCK + 1, step=BLOCK)
    loader = fp.Loader(tokens.shuffle().batch(BATCH).collate(), seed=1337, device=DEVICE)
    if checkpoint.exists():
        loader.load_state_dict(torch.load(checkpoint, weights_only=True)["loader"])
    return loader


# ----------------------------------------------------------------------------------------------------------------------


class GPT(nn.Module):
    """Embeddings, one block of attention, and a head."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(WORDS, width), nn.Embedding(BLOCK, width)
        self.block = nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, WORDS, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(BLOCK), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.block(self.tokens(tokens) + self.places(places), src_mask=self.mask, is_causal=True))


def train(folder: Path, checkpoint: Path, seen: list[int], losses: list[float], *, stop_at: int | None = None) -> None:
    """Train for an epoch, from the checkpoint if there is one; at step `stop_at`, write it and stop."""
    torch.manual_seed(1337)
    model = DistributedDataParallel(GPT().to(DEVICE))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = data(folder, checkpoint)
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True, map_location=DEVICE)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for batch in loader:
        window = batch["tokens"].long()  # the files' uint16 until here: a quarter of the bytes
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        seen += [crc32(row.tobytes()) for row in window.cpu().numpy()]
        if loader.step == stop_at:
            if dist.get_rank() == 0:  # one rank's state serves all ranks, and any number of them
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "loader": loader.state_dict()}, checkpoint)
            break
    dist.barrier()


def write_shards(folder: Path, tokens: int) -> None:
    """Write shards as nanoGPT's and modded-nanogpt's `prepare.py` do, without the header."""
    follower = np.random.default_rng(0).permutation(WORDS)
    for number in range(SHARDS):
        rng = np.random.default_rng(number + 1)
        shard = rng.integers(0, WORDS, tokens, dtype=np.uint16)
        for at in np.flatnonzero(rng.random(tokens - 1) < 0.9) + 1:
            shard[at] = follower[shard[at - 1]]
        shard.tofile(folder / f"train_{number:06d}.bin")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2**15 + 1, help="of each of the three shards")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    windows = SHARDS * ((options.tokens - 1) // BLOCK)
    steps = windows // BATCH // ranks
    seen: list[int] = []
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as made:  # rank 0's is the one of all ranks
        places = [made]
        dist.broadcast_object_list(places)
        folder = Path(places[0])
        if rank == 0:
            write_shards(folder, options.tokens)
        dist.barrier()
        train(folder, folder / "checkpoint.pt", seen, losses, stop_at=steps // 3)
        train(folder, folder / "checkpoint.pt", seen, losses)

    everywhere: list[list[int]] = [[] for _ in range(ranks)]
    dist.all_gather_object(everywhere, seen)
    dist.destroy_process_group()
    all_seen = [window for each in everywhere for window in each]
    once = len(set(all_seen)) == len(all_seen) == windows
    if rank == 0:
        sys.stdout.write(f"steps    {len(losses)}, stopped after {steps // 3}\n")
        sys.stdout.write(f"loss     {losses[0]:.2f} before, {np.mean(losses[-5:]):.2f} after\n")
        sys.stdout.write(f"windows  {windows}, each seen once: {'yes' if once else 'no'}\n")
    return 0 if once else 1


if __name__ == "__main__":
    sys.exit(main())
