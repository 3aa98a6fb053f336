"""Train the network of fashion_mnist.py in one process, with DataParallel.

    python examples/fashion_mnist_data_parallel.py

DataParallel divides each batch among the GPUs of the process; without a GPU, it runs the network as it is. The loader
knows nothing of it. A batch of 250 has the images that two ranks of fashion_mnist.py have in batches of 125 at the same
step, with the same flips and shifts. Only batch normalisation sees other groups of images, so both come to the same
accuracy.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from fashion_mnist import Network, find_data, images, test_pipe, training_pipe
from torch import nn

import feedpipe as fp

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def training_loader(folder: Path, *, batch: int, workers: int, seed: int = 0) -> fp.Loader[dict[str, Any]]:
    return fp.Loader(training_pipe(folder, batch), workers=workers, seed=seed, device=DEVICE)


def train(folder: Path, *, epochs: int, batch: int, workers: int, seed: int = 0) -> nn.Module:
    """Train a new network as `Job` does."""
    torch.manual_seed(seed)
    parallel = nn.DataParallel(Network().to(DEVICE))
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    with training_loader(folder, batch=batch, workers=workers, seed=seed) as loader:
        steps = epochs * len(loader)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=steps, pct_start=0.3)
        for _ in range(epochs):
            for rows in loader:
                optimizer.zero_grad()
                F.cross_entropy(parallel(rows["image"]), rows["label"].long()).backward()
                optimizer.step()
                schedule.step()
    return parallel


@torch.no_grad()
def accuracy(network: nn.Module, folder: Path) -> float:
    """The share of test images that are classified correctly."""
    network.eval()
    right = 0
    for rows in fp.Loader(test_pipe(folder), device=DEVICE):
        right += int((network(rows["image"]).argmax(1) == rows["label"]).sum())
    network.train()
    return right / len(images(folder, "t10k"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a small network on Fashion-MNIST with DataParallel.")
    parser.add_argument("--data", type=Path, help="folder with the four gz files; else Debian's, else a download")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=250, help="images in a batch: those of all ranks together")
    parser.add_argument("--workers", type=int, default=0, help="processes that make the batches")
    parser.add_argument("--goal", type=float, default=0.88, help="test accuracy to reach; below it the exit code is 1")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - arguments.workers))
    try:
        folder = find_data(arguments.data)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    begin = perf_counter()
    network = train(folder, epochs=arguments.epochs, batch=arguments.batch, workers=arguments.workers)
    seconds = perf_counter() - begin
    share = accuracy(network, folder)
    print(f"test accuracy         {share:.2%}")
    print(f"training              {seconds:.1f} s")
    return 0 if share >= arguments.goal else 1


if __name__ == "__main__":
    sys.exit(main())
