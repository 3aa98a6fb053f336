"""The example with DataParallel beside the one with DDP: the same images in each step, and the same network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.distributed as dist

from .loading import loaded_example
from .test_fashion_mnist import values, write_idx

TRAIN, TEST = 400, 200
BATCH = 20


@pytest.fixture(scope="module")
def ddp() -> Iterator[ModuleType]:
    with loaded_example("fashion_mnist") as module:
        yield module


@pytest.fixture(scope="module")
def example(ddp: ModuleType) -> Iterator[ModuleType]:
    with loaded_example("fashion_mnist_data_parallel") as module:
        yield module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images that a network can learn: the label says which rows of the image are bright."""
    written = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for part, count in (("train", TRAIN), ("t10k", TEST)):
        labels = random.integers(4, size=count)
        images = random.integers(100, size=(count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[7 * label : 7 * label + 7] += 100
        write_idx(written / f"{part}-images-idx3-ubyte.gz", images)
        write_idx(written / f"{part}-labels-idx1-ubyte.gz", labels)
    return written


@pytest.mark.slow
def test_it_trains_the_network_that_one_rank_trains(example: ModuleType, ddp: ModuleType, folder: Path) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        job = ddp.Job(folder, epochs=1, batch=BATCH)
        ddp.train(job, ddp.Record())
    finally:
        dist.destroy_process_group()
    assert values(example.train(folder, epochs=1, batch=BATCH, workers=0).module) == values(job.network)


@pytest.mark.slow
def test_it_learns(
    example: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data", str(folder), "--epochs", "2", "--batch", str(BATCH), "--goal", "0.9"]
    monkeypatch.setattr(sys, "argv", ["fashion_mnist_data_parallel.py", *options])
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)  # further tests run in this process
    assert example.main() == 0  # below the goal it is 1
    assert "test accuracy" in capsys.readouterr().out
