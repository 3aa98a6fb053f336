"""Train a small network on Fashion-MNIST, stop in the middle of an epoch, and resume from the checkpoint.

    torchrun --standalone --nproc-per-node=2 examples/fashion_mnist.py

Every image carries its number through the pipe. At the end all ranks count the numbers that the interrupted epoch has
trained on. Each must occur exactly once, although only a checkpoint remains of the job that began the epoch.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

import feedpipe as fp

T = TypeVar("T")

DEVICE = torch.device("cpu")
if torch.cuda.is_available():  # several ranks may share a GPU, which gloo allows, unlike NCCL
    DEVICE = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())

# --------------------------------------------------------------------------------------------------
# The files

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts them
CACHE = Path.home() / ".cache" / "feedpipe" / "fashion-mnist"
SITE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
MD5 = {  # from the README of the data set
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}


def find_data(given: Path | None) -> Path:
    """Return the folder with the four files: the user's, else Debian's, else a cache to which they are downloaded."""
    folder = given or (DEBIAN if DEBIAN.is_dir() else CACHE)
    missing = [name for name in MD5 if not (folder / name).exists()]
    if missing and folder != CACHE:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)}")
    for name in missing:
        download(SITE + name, folder / name, MD5[name])
    return folder


def download(url: str, path: Path, md5: str) -> None:
    """Fetch one file. It appears under its name only after its checksum is verified."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content = response.read()
    except OSError as error:
        raise ConnectionError(
            f"{url} cannot be downloaded: {error}\n"
            "Without a network, install the Debian package dataset-fashion-mnist, or put the four files "
            "into a folder and name it with `--data`."
        ) from None
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise OSError(f"{url} gave a file that is not the official one: its MD5 is not {md5}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(content)
    partial.replace(path)


# --------------------------------------------------------------------------------------------------
# The pipes


def images(folder: Path, part: str) -> fp.Pipe[dict[str, Any]]:
    """Rows of {"image": 28 x 28 bytes, "label": 0 to 9}; `part` is "train" or "t10k"."""
    return fp.from_arrays(
        {
            "image": read_idx(folder / f"{part}-images-idx3-ubyte.gz"),
            "label": read_idx(folder / f"{part}-labels-idx1-ubyte.gz"),
        }
    )


def read_idx(path: Path) -> np.ndarray:
    """The bytes of a file in MNIST's format: four bytes, the last of which counts the axes, their lengths, the data."""
    data = gzip.decompress(path.read_bytes())
    axes = data[3]
    shape = np.frombuffer(data, ">u4", axes, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def augment(numbered: tuple[int, dict[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
    """Flip an image or not, and shift it by up to two pixels; the draws are the same after a resume."""
    number, row = numbered
    mirrored = rng.random() < 0.5
    down, right = rng.integers(5, size=2)
    canvas = np.zeros((32, 32), np.uint8)
    canvas[2:30, 2:30] = row["image"][:, ::-1] if mirrored else row["image"]
    return {"number": number, "image": canvas[down : down + 28, right : right + 28], "label": row["label"]}


def training_pipe(folder: Path, batch: int) -> fp.Pipe[dict[str, Tensor]]:
    return images(folder, "train").enumerate().shuffle().map(augment, rng=True).batch(batch).collate()


def test_pipe(folder: Path) -> fp.Pipe[dict[str, Tensor]]:
    return images(folder, "t10k").batch(400).collate()


# --------------------------------------------------------------------------------------------------
# The job: everything that is lost at a stop, and that a checkpoint restores


class Network(nn.Module):
    """Three convolutions and a linear layer. Images stay bytes until they are here."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *self.block(1, 16), *self.block(16, 32), *self.block(32, 64), nn.Flatten(), nn.Linear(9 * 64, 10)
        )
        self.to(memory_format=torch.channels_last)

    @staticmethod
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    def forward(self, image: Tensor) -> Tensor:
        normalised = (image.unsqueeze(1).float() / 255 - 0.286) / 0.353
        return self.layers(normalised.contiguous(memory_format=torch.channels_last))


class Job:
    """A model in training: network, optimiser, learning rate and loader."""

    def __init__(self, folder: Path, *, epochs: int, batch: int, seed: int = 0) -> None:
        torch.manual_seed(seed)
        # All ranks must take the same number of steps. By default batches that do not divide evenly are left out;
        # "error" refuses such a batch size, because here each image must be seen.
        self.loader = fp.Loader(training_pipe(folder, batch), seed=seed, even="error", device=DEVICE)
        self.images_a_step = batch * dist.get_world_size()
        self.network = Network().to(DEVICE)
        self.parallel = DistributedDataParallel(self.network)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=0.2, total_steps=epochs * len(self.loader), pct_start=0.3
        )

    def step(self, batch: dict[str, Tensor]) -> None:
        """One step of the optimiser."""
        self.optimizer.zero_grad()
        F.cross_entropy(self.parallel(batch["image"]), batch["label"].long()).backward()
        self.optimizer.step()
        self.schedule.step()

    def save(self, path: Path) -> None:
        """Write the checkpoint; a loader's state is a little JSON, one for each rank."""
        states: list[str | None] = [None] * dist.get_world_size()
        dist.all_gather_object(states, json.dumps(self.loader.state_dict()))
        if dist.get_rank() == 0:
            trained = {name: getattr(self, name).state_dict() for name in ("network", "optimizer", "schedule")}
            torch.save({**trained, "loaders": states}, path)
        dist.barrier()

    def load(self, path: Path) -> None:
        """Resume from a checkpoint."""
        saved = torch.load(path, weights_only=True, map_location=DEVICE)
        for name in ("network", "optimizer", "schedule"):
            getattr(self, name).load_state_dict(saved[name])
        self.loader.load_state_dict(json.loads(saved["loaders"][dist.get_rank()]))


# --------------------------------------------------------------------------------------------------
# Training


@dataclass
class Record:
    """What one rank has trained on, and how long it took; kept outside of the job."""

    seconds: float = 0.0
    waiting: float = 0.0
    numbers: list[Tensor] = field(default_factory=list)  # of the images of the current epoch

    def timed(self, batches: Iterable[T]) -> Iterator[T]:
        """Yield `batches`; add up the time until each arrives, and until the consumer asks for the next."""
        begin = perf_counter()
        for batch in batches:
            arrived = perf_counter()
            self.waiting += arrived - begin
            yield batch
            self.seconds += perf_counter() - begin
            begin = perf_counter()


def train(job: Job, record: Record, *, stop_at: int | None = None) -> None:
    """Train from the job's current step to the end of the epoch, or to step `stop_at`."""
    with tqdm(
        desc=f"epoch {job.loader.epoch + 1}",
        initial=job.loader.step * job.images_a_step,
        total=len(job.loader) * job.images_a_step,
        unit=" images",
        mininterval=0.5,
        disable=dist.get_rank() > 0,
    ) as bar:
        for batch in record.timed(job.loader):
            job.step(batch)
            record.numbers.append(batch["number"])
            bar.update(job.images_a_step)
            if job.loader.step == stop_at:
                break


@torch.no_grad()
def accuracy(network: Network, folder: Path) -> float:
    """The share of test images that are classified correctly. Padding makes ranks even; the mask leaves it out."""
    network.eval()
    tally = torch.zeros(2, dtype=torch.long, device=DEVICE)  # right, all
    for batch, info in fp.Loader(test_pipe(folder), even="pad", device=DEVICE).with_info():
        right = network(batch["image"]).argmax(1) == batch["label"]
        valid = torch.from_numpy(info.valid).to(DEVICE)
        tally += torch.stack([(right & valid).sum(), valid.sum()])
    network.train()
    dist.all_reduce(tally)
    assert tally[1] == len(images(folder, "t10k")), "each test image counts exactly once"
    return float(tally[0] / tally[1])


def times_seen(record: Record, total: int) -> Tensor:
    """How many times each of `total` images was trained on, by all ranks together."""
    seen = torch.bincount(torch.cat(record.numbers), minlength=total)
    dist.all_reduce(seen)
    return seen


# --------------------------------------------------------------------------------------------------
# The program


@dataclass(frozen=True)
class Result:
    accuracy: float
    seconds: float
    images: int
    waiting: float
    stopped_at: tuple[int, int]
    once: int
    lost: int
    twice: int

    def table(self) -> str:
        lines = {
            "test accuracy": f"{self.accuracy:.2%}",
            "training": f"{self.seconds:.1f} s",
            "images/s, all ranks": f"{self.images / self.seconds:,.0f}",
            "waiting for data": f"{self.waiting / self.seconds:.1%} of the time, on rank 0",
            "interrupted epoch": "stopped after step {} of {}".format(*self.stopped_at),
            "  images seen once": f"{self.once:,}",
            "  lost": f"{self.lost:,}",
            "  seen twice": f"{self.twice:,}",
        }
        return "\n".join(f"{name:<22}{value}" for name, value in lines.items())


def run(folder: Path, checkpoint: Path, *, epochs: int, batch: int) -> Result:
    """Train for some epochs; stop in the middle of the last, keep only the checkpoint, and finish with a new job."""
    record = Record()
    job = Job(folder, epochs=epochs, batch=batch)
    steps = len(job.loader)
    stop = steps // 2

    for _ in range(epochs - 1):
        record.numbers.clear()
        train(job, record)

    record.numbers.clear()
    train(job, record, stop_at=stop)
    job.save(checkpoint)
    del job

    job = Job(folder, epochs=epochs, batch=batch)
    job.load(checkpoint)
    train(job, record)

    total = len(images(folder, "train"))
    seen = times_seen(record, total)
    return Result(
        accuracy=accuracy(job.network, folder),
        seconds=record.seconds,
        images=epochs * total,
        waiting=record.waiting,
        stopped_at=(stop, steps),
        once=int((seen == 1).sum()),
        lost=int((seen == 0).sum()),
        twice=int((seen > 1).sum()),
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Trains a small network on Fashion-MNIST, and stops and resumes on the way."
    )
    parser.add_argument("--data", type=Path, help="folder with the four gz files; else Debian's, else a download")
    parser.add_argument("--epochs", type=int, default=8)
    # 480 batches, which 2, 3, 4, 5, 6 and 8 ranks can share evenly.
    parser.add_argument("--batch", type=int, default=125, help="images in a batch of one rank")
    parser.add_argument("--goal", type=float, default=0.88, help="test accuracy to reach; below it the exit code is 1")
    return parser.parse_args()


def join_ranks() -> None:
    """Join the other ranks of torchrun; without torchrun, be the only rank."""
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // dist.get_world_size()))


def share(value: T) -> T:
    """Return the value of rank 0 on every rank."""
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


def find_data_once(given: Path | None) -> Path | None:
    """Return the folder that rank 0 finds; None if it finds none, after it has printed the reason."""
    folder = None
    if dist.get_rank() == 0:
        try:
            folder = find_data(given)
        except OSError as error:
            print(error, file=sys.stderr)
    return share(folder)


def main() -> int:
    arguments = parse_arguments()
    join_ranks()
    try:
        folder = find_data_once(arguments.data)
        if folder is None:
            return 1
        with tempfile.TemporaryDirectory() as scratch:
            checkpoint = share(Path(scratch) / "checkpoint.pt")
            result = run(folder, checkpoint, epochs=arguments.epochs, batch=arguments.batch)
        if dist.get_rank() == 0:
            print(result.table())
    finally:
        dist.destroy_process_group()
    reached = result.accuracy >= arguments.goal
    exact = result.lost == result.twice == 0
    return 0 if reached and exact else 1


if __name__ == "__main__":
    sys.exit(main())
