"""Workers of `feedpipe.compat.DataLoader`: their seeds, their dataset and their ends."""

from __future__ import annotations

import os
import random
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from feedpipe.compat import DataLoader
from feedpipe.errors import ArgumentTypeError, LoaderError, WorkerError

from .torch_datasets import Squares, forked


class Seeds(Dataset[tuple[int, float, float, int]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[int, float, float, int]:
        return torch.initial_seed(), random.random(), np.random.random(), int(torch.randint(1 << 40, ()))


class Once(Dataset[int]):
    """Calls `action` on row 5, the first time any process reads it."""

    def __init__(self, folder: Path, action: Any, *, always: bool = False) -> None:
        self.mark = folder / "mark"
        self.action = action
        self.always = always

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        if index == 5 and (self.always or not self.mark.exists()):
            self.mark.touch()
            self.action()
        return index


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    threading.Event().wait()


def test_loaders_and_iterators_side_by_side() -> None:
    loader = DataLoader(Squares(), batch_size=4, **forked(1))
    other = DataLoader(Squares(6), batch_size=2, **forked(2))
    batches = zip(loader, loader, other, strict=False)
    assert [(one[2][0], two[2][0], three[2][0]) for one, two, three in batches] == [
        ("0", "0", "0"),
        ("4", "4", "2"),
        ("8", "8", "4"),
    ]


def init_to_12345(worker: int) -> None:
    torch.manual_seed(12345)


def test_seeds_of_workers() -> None:
    loader = DataLoader(Seeds(), batch_size=None, generator=torch.Generator().manual_seed(1), **forked(2))
    rows = list(loader)
    for values in zip(*rows, strict=True):
        assert len(set(values)) == 8
    again = DataLoader(Seeds(), batch_size=None, generator=torch.Generator().manual_seed(1), **forked(1))
    assert list(again) == rows  # the draws of a batch do not depend on the number of workers
    assert list(again) != rows
    seeded = DataLoader(Seeds(), batch_size=None, worker_init_fn=init_to_12345, **forked(2))
    assert {row[0] for row in seeded} == {12345}


def test_a_dataset_that_cannot_be_pickled(tmp_path: Path) -> None:
    dataset = Squares()
    with (tmp_path / "bytes").open("wb") as file:
        dataset.file = file  # type: ignore[attr-defined]
        with pytest.raises(ArgumentTypeError, match="`dataset.file` is an _io.BufferedWriter"):
            list(DataLoader(dataset, **forked(1)))


def interrupt(consumer: int) -> None:
    """The consumer, once it sleeps until this row arrives, is interrupted as by Ctrl-C."""
    stat = Path(f"/proc/{consumer}/stat")
    while stat.read_text().rpartition(") ")[2][0] != "S":
        pass
    os.kill(consumer, signal.SIGINT)
    hang()


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt_within_a_batch(tmp_path: Path, persistent: bool) -> None:
    dataset = Once(tmp_path, partial(interrupt, os.getpid()))
    loader = DataLoader(dataset, batch_size=2, persistent_workers=persistent, **forked(1))
    batches = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        list(batches)
    with pytest.raises(LoaderError, match="KeyboardInterrupt has ended this run"):
        next(batches)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[row, row + 1] for row in range(0, 12, 2)]


@pytest.mark.filterwarnings("ignore::feedpipe.errors.WorkerWarning")
def test_a_worker_that_dies_again_and_again(tmp_path: Path) -> None:
    batches = iter(DataLoader(Once(tmp_path, die, always=True), batch_size=2, **forked(2)))
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    for _ in range(2):
        with pytest.raises(WorkerError, match=r"element 2, of \[4, 5\]; it has died there 3 times"):
            next(batches)


def test_timeout(tmp_path: Path) -> None:
    loader = DataLoader(Once(tmp_path, hang), batch_size=4, timeout=0.5, **forked(1))
    with pytest.raises(RuntimeError, match=r"no element has come for 0.5 seconds"):
        list(loader)


class Waiting(Dataset[int]):
    """Row 0 comes when row 3 was read."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 0:
            with open(self.fifo):  # waits until another process opens it to write
                pass
        return index


def test_out_of_order(tmp_path: Path) -> None:
    dataset = Waiting(tmp_path)
    loader = DataLoader(dataset, batch_size=None, in_order=False, **forked(2))
    elements = iter(loader)
    assert next(elements) == 1
    with open(dataset.fifo, "w"):
        pass
    assert sorted(elements) == [0, 2, 3]
    with pytest.raises(LoaderError, match="in_order=False"):
        loader.state_dict()
