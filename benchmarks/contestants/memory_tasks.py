"""What a long list costs every worker: its memory and its start with millions of paths, less those with empty strings.

A measurement starts three loaders: a first one for warming up, one with empty strings, one with paths. Memory is what
`/proc` says: the unique set is a process's own, the proportional set adds its share of what several have mapped. Files
without a name, such as shared memory, are there once for all, and are counted apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from .processes import below

WORKERS = 2
MB = 1e6

#: Makes the lengths of strings; closing that ends the workers.
Elements = Callable[[list[str], int], Iterator[int]]


def compared(elements: Elements, paths: int, sample: int) -> dict[str, Any]:
    short = [""] * (4 * sample)
    _visit(elements, short, sample)
    without = _visit(elements, short, sample)
    long = [f"/datasets/pictures/train/class-{i % 1000:04d}/picture-{i:012d}.jpeg" for i in range(paths)]
    with_list = _visit(elements, long, sample)
    more = {f"{name}_more": with_list[name] - without[name] for name in without}
    return {**with_list, **more, "path_length": len(long[0])}


def _visit(elements: Elements, strings: list[str], sample: int) -> dict[str, float]:
    start = time.perf_counter()
    lengths = elements(strings, sample)
    total = next(lengths)
    seconds = time.perf_counter() - start
    figures = {"start": seconds, **{f"{name}_at_start": value for name, value in _workers().items()}}
    read = 1
    for length in islice(lengths, sample - 1):
        total += length
        read += 1
    assert (read, total) == (sample, sample * len(strings[0])), "the elements are not those of the list"
    figures.update(_workers())
    lengths.close()  # type: ignore[attr-defined]
    return figures


def _workers() -> dict[str, float]:
    """In MB; the sets are those of the largest worker: of the processes below this one, the largest are the workers."""
    time.sleep(0.5)  # the workers run ahead, and then wait
    processes = below(os.getpid())
    each_set = sorted(map(sets, processes), reverse=True)
    others = sum(proportional for proportional, _ in each_set[WORKERS:])
    proportional, unique = (max(each[i] for each in each_set[:WORKERS]) for i in range(2))
    return {"pss": proportional, "uss": unique, "others": others, "files": _files([os.getpid(), *processes])}


def sets(pid: int) -> tuple[float, float]:
    """Proportional and unique."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(size) * 1024 / MB for name, size, _ in map(str.split, lines)}
    return sizes["Pss:"], sizes["Private_Clean:"] + sizes["Private_Dirty:"]


def _files(pids: list[int]) -> float:
    """What all files take that these processes have open and that have no name, each counted once."""
    sizes: dict[tuple[int, int], float] = {}
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # the descriptor of that folder
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if not found.st_nlink:
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * 512 / MB
    return sum(sizes.values())
