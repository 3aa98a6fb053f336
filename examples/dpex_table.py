"""Dpex's table on Fashion-MNIST: training reads in a Ray cluster or does not, and the results agree exactly.

    ray start --head
    python examples/dpex_table.py --epochs 40

Dpex (https://github.com/eedalong/Dpex) had a torch `DataLoader` make its batches in a Ray cluster, and showed that the
accuracy stays the same, within noise. Here `feedpipe.compat.DataLoader(..., distribute="ray")` does so, with the same
dataset and sampler, and the numbers must be equal. A second table shows images a second with 1, 2 and 4 actors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from fashion_mnist import find_data, images
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset, DistributedSampler

import feedpipe as fp
from feedpipe.compat import DataLoader

BATCH = 100
RATE = 0.001
MODES = ("single", "DataParallel", "DDP, 2 ranks")


class FashionMNIST(Dataset[tuple[Tensor, int]]):
    """The images of one part, each shifted at random by up to two pixels if `augmented`."""

    def __init__(self, folder: Path, part: str, count: int, *, augmented: bool) -> None:
        (rows,) = images(folder, part).batch(count).collate().take(1)
        self.images = rows["image"]
        self.labels = rows["label"].tolist()
        self.augmented = augmented

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index].float() / 255
        if self.augmented:
            down, right = torch.randint(-2, 3, (2,)).tolist()
            image = image.roll((down, right), (0, 1))
        return image[None], self.labels[index]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )


def train(mode: str, options: argparse.Namespace, **reading: Any) -> dict[str, float]:
    """Trains, and returns the accuracy and the mean loss on the test images."""
    torch.manual_seed(0)
    model = network()
    folder = find_data(options.data)
    dataset = FashionMNIST(folder, "train", options.images, augmented=True)
    sampler: DistributedSampler[Any] | None = None
    if mode == "DataParallel":
        model = nn.DataParallel(model)
    elif mode != "single":
        model = DistributedDataParallel(model)
        sampler = DistributedSampler(dataset, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    loader = DataLoader(dataset, BATCH, shuffle=sampler is None, sampler=sampler, num_workers=2, **reading)
    for epoch in range(options.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for pictures, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(pictures), labels).backward()
            optimizer.step()
    right = loss = 0.0
    test = FashionMNIST(folder, "t10k", 10_000, augmented=False)
    with torch.no_grad():
        for pictures, labels in DataLoader(test, 1000):
            scores = model(pictures)
            right += float((scores.argmax(1) == labels).sum())
            loss += float(F.cross_entropy(scores, labels, reduction="sum"))
    return {"accuracy": 100 * right / len(test), "loss": loss / len(test)}


def run_alone(options: argparse.Namespace) -> None:
    """One training, in the processes that `torchrun` has started, or in this one."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    result = train(options.mode, options, **({"distribute": service(options)} if options.distribute else {}))
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps(result), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def service(options: argparse.Namespace) -> fp.Ray:
    return fp.Ray(2, cpus=0.5, address=options.address)


def trained(mode: str, options: argparse.Namespace, *, distribute: bool) -> dict[str, float]:
    """The result of one training, in processes of its own."""
    program = [__file__, f"--mode={mode}", f"--epochs={options.epochs}", f"--images={options.images}"]
    program += ["--distribute"] if distribute else []
    program += [f"--data={options.data}"] if options.data else []
    program += [f"--address={options.address}"] if options.address else []
    ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"] if mode == MODES[2] else []
    done = subprocess.run([sys.executable, *ranks, *program], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def print_accuracy(options: argparse.Namespace) -> None:
    print(f"| {options.epochs} epochs of {options.images} images | accuracy | loss | with Ray |")
    print("| --- | --- | --- | --- |")
    for mode in MODES:
        here = trained(mode, options, distribute=False)
        there = trained(mode, options, distribute=True)
        agree = "equal" if here == there else f"{there['accuracy']:.2f} %, {there['loss']:.4f}"
        print(f"| {mode} | {here['accuracy']:.2f} % | {here['loss']:.4f} | {agree} |", flush=True)
        if here != there:
            sys.exit("reading in the cluster has changed the result")


class Slow(Dataset[Tensor]):
    """Images whose augmentation waits, as for a service, or computes."""

    def __init__(self, count: int, *, computes: bool) -> None:
        self.count = count
        self.computes = computes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        if not self.computes:
            time.sleep(0.01)
            return torch.full((28, 28), index)
        image = torch.full((28, 28), float(index))
        for _ in range(200):
            image = image.roll(1, 0).clamp(0, 255)
        return image


def print_speed(options: argparse.Namespace) -> None:
    print("\n| images a second | 1 actor | 2 actors | 4 actors |\n| --- | --- | --- | --- |")
    for computes in (False, True):
        cells: list[str] = []
        for actors in (1, 2, 4):
            place = fp.Ray(actors, cpus=0.5, address=options.address)
            loader = DataLoader(Slow(800, computes=computes), 10, persistent_workers=True, distribute=place)
            for _ in loader:  # the first epoch starts the actors
                pass
            start = time.perf_counter()
            count = sum(len(batch) for batch in loader)
            cells.append(f"{count / (time.perf_counter() - start):.0f}")
            del loader
        print(f"| an augmentation that {'computes' if computes else 'waits'} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with the four files of Fashion-MNIST")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=60_000, help="train on so many images")
    parser.add_argument("--address", help="of the cluster; by default that of this machine")
    parser.add_argument("--mode", choices=MODES, help="print the result of one training")
    parser.add_argument("--distribute", action="store_true", help="read it in the cluster")
    options = parser.parse_args()
    if options.mode:
        run_alone(options)
        return
    print_accuracy(options)
    print_speed(options)


if __name__ == "__main__":
    main()
