"""Train a small GPT on token shards with 2 ranks, as nanoGPT does; stop it, and go on where it stopped.

    torchrun --standalone --nproc-per-node=2 examples/pretrain_tokens.py

The 12 lines between the two rules are all of feedpipe. They take the place of nanoGPT's `get_batch`, which draws windows
with replacement, has no epoch, and begins anew after a stop. The shards are made up: a token mostly decides the next.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import feedpipe as fp

BLOCK, BATCH, WORDS = 64, 8, 64
END = 0  # ends a document

# ----------------------------------------------------------------------------------------------------------------------


def loader(folder: Path, checkpoint: Path, steps: int) -> fp.Loader[dict[str, Tensor]]:
    """Windows of all shards in a random order, divided among the ranks; it goes on after the checkpoint."""
    shards = fp.read_tokens(folder / "*.bin", dtype="uint16", length=BLOCK + 1, step=BLOCK)
    loader = fp.Loader(shards.shuffle().batch(BATCH).collate(), seed=1337, steps=steps, device=DEVICE)
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text()))
    return loader


def save(loader: fp.Loader[dict[str, Tensor]], checkpoint: Path) -> None:
    state = loader.state_dict()
    if loader.rank == 0:
        checkpoint.write_text(json.dumps(state))


# ----------------------------------------------------------------------------------------------------------------------

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
