"""Over many epochs, memory, descriptors and threads stay as they are after the first ones."""

from __future__ import annotations

import os
import statistics
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import feedpipe as fp

EPOCHS = int(os.environ.get("FEEDPIPE_SOAK_EPOCHS", "24"))
MEBIBYTE = 2**20


def memory(pid):
    """Private bytes, which a leak would increase."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Dirty:", "Swap:")))


def grown(amounts):
    """Growth of `amounts`: a leak adds to each of them, a piece that the allocator takes once to one."""
    return (len(amounts) - 1) * statistics.median(after - before for before, after in pairwise(amounts))


def figures(pids):
    return {
        "memory": [memory(pid) for pid in pids],
        "descriptors": [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids],
        "threads": [len(os.listdir(f"/proc/{pid}/task")) for pid in pids],
    }


def numbers(count):
    return fp.from_sequence(range(count))


PIPES = {
    "indexed": lambda: numbers(2000).shuffle().map(lambda row: np.full(256, row)).batch(32),
    "streamed": lambda: (
        numbers(2000).filter(bool).map(lambda row: {"x": np.full(256, row)}).shuffle(window=64).batch(32)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("pipe", PIPES)
def test_epochs(pipe, processes, record_property):
    with fp.Loader(PIPES[pipe](), workers=2) as loader:
        seen, kept = [], []
        for epoch in range(EPOCHS):
            if epoch % 4 == 1:
                next(iter(loader))  # abandons the epoch, which ends in threads
            for batch in loader:
                kept = [*kept[-3:], batch]
            if epoch % 4 == 3:
                processes.await_dropped()
                pids = [os.getpid(), *(one.pid for one in processes.below())]
                seen.append(figures(pids) | {"parent's threads": threading.active_count()})
        first, last = seen[1], seen[-1]
        record_property("figures", f"{first} {last}")
        print(f"{pipe}: after {8} epochs {first}, after {EPOCHS} {last}")  # noqa: T201
    for name in ("descriptors", "threads", "parent's threads"):
        assert last[name] == first[name]
    for amounts in zip(*(one["memory"] for one in seen[1:]), strict=True):
        assert grown(amounts) < MEBIBYTE + amounts[0] // 20, amounts


@pytest.mark.slow
def test_deaths(processes, deaths):
    expected = [row * row for row in range(500)]
    pipe = numbers(500).map(lambda row: np.full(500, row * row))
    with deaths(), fp.Loader(pipe, fp.MultiProcess(2, prefetch=2)) as loader:
        seen = []
        for epoch in range(EPOCHS // 2):
            got = []
            for row, array in enumerate(loader):
                got.append(int(array[0]))
                if row == epoch * 17 % 400:
                    processes.kill([processes.workers()[epoch % 2]])
            assert got == expected
            processes.await_dropped()
            seen.append((len(os.listdir("/proc/self/fd")), len(processes.below()), memory(os.getpid())))
    assert len({one[:2] for one in seen[2:]}) == 1
    amounts = [one[2] for one in seen[4:]]
    assert grown(amounts) < MEBIBYTE + amounts[0] // 20, amounts
