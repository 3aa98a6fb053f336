"""Ours beside a loop by hand that shuffles as deeply: CPU time of a row, on one core, interleaved in one process.

A reservoir of half a window leaves as many neighbours in one batch as a window does; beside eight shards, each with a
window of its own, stands a reservoir of half of all eight. For columns the loop keeps half of a window in arrays, and
gives a random half of all rows each time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import feedpipe as fp

ROWS_WINDOW, BATCH = 10_000, 256
TABLE_WINDOW = 200_000
COLUMNS = [f"f{number}" for number in range(8)]
GROUPS = {"few": 100_000, "many": 10_000}

Case = Callable[[], int]


def make(folder: str, rows: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    table = pa.table({name: generator.standard_normal(rows, dtype=np.float32) for name in COLUMNS})
    for name, group in GROUPS.items():
        parquet.write_table(table, f"{folder}/{name}.parquet", compression="zstd", row_group_size=group)
    return {}


def measure(folder: str, rows: int, rounds: int, case: str, **options: Any) -> dict[str, Any]:
    """Minimum and median of the rounds, in nanoseconds of CPU a row, of the loop and of ours."""
    import torch

    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    contestants = (_rows if case in ("ints", "dicts") else _table)(folder, rows, case, **options)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            if number:
                times[name].append((time.process_time() - start) / rows * 1e9)
    return {f"{name}_{kind.__name__}": kind(taken) for name, taken in times.items() for kind in (min, median)}


def _rows(folder: str, rows: int, case: str) -> dict[str, Case]:
    make_row, keep = (_next, _keep) if case == "ints" else (_row, _keep_row)

    def ours() -> fp.Pipe[Sequence[Any]]:
        return fp.from_sequence(range(rows)).map(make_row).filter(keep).shuffle(window=ROWS_WINDOW).batch(BATCH)

    def loop(windows: int) -> int:
        source = filter(keep, map(make_row, range(rows)))
        return sum(map(len, _batches(_reservoir(source, windows * ROWS_WINDOW // 2))))

    return {
        "loop": lambda: loop(1),
        "deep": lambda: loop(8),
        "pipe": lambda: sum(map(len, ours())),
        "one": lambda: sum(map(len, fp.Loader(ours(), shards=1))),
        "eight": lambda: sum(map(len, fp.Loader(ours(), shards=8))),
    }


def _next(number: int) -> int:
    return number + 1


def _keep(number: int) -> bool:
    return number % 3 != 0


def _row(number: int) -> dict[str, object]:
    return {"id": number, "x": number * 0.5, "label": number % 10, "text": "abc"}


def _keep_row(row: dict[str, Any]) -> bool:
    kept: bool = row["id"] % 3 != 0
    return kept


def _reservoir(source: Iterator[Any], size: int) -> Iterator[Any]:
    generator = random.Random(0)
    draw = generator.random
    buffer = list(islice(source, size))
    for row in source:
        at = int(draw() * size)
        yield buffer[at]
        buffer[at] = row
    generator.shuffle(buffer)
    yield from buffer


def _batches(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _table(folder: str, rows: int, case: str, batch: int, *, shuffled: bool) -> dict[str, Case]:
    path = f"{folder}/{case}.parquet"

    def ours(shards: int) -> int:
        pipe = fp.read_parquet(path)
        pipe = pipe.shuffle(window=TABLE_WINDOW) if shuffled else pipe
        return sum(len(each["f0"]) for each in fp.Loader(pipe.batch(batch).collate(), shards=shards))

    def loop() -> int:
        parts = _decoded(path)
        return sum(len(each["f0"]) for each in _tensors(_mixed(parts) if shuffled else parts, batch))

    return {"loop": loop, "one": lambda: ours(1), "eight": lambda: ours(8)}


def _decoded(path: str) -> Iterator[list[np.ndarray]]:
    file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**16)
    for each in file.iter_batches(2**17, use_threads=False):
        yield [np.asarray(column) for column in each.columns]


def _mixed(parts: Iterable[list[np.ndarray]]) -> Iterator[list[np.ndarray]]:
    generator = np.random.default_rng(0)
    waiting: list[list[np.ndarray]] = []
    new = 0
    for part in parts:
        waiting.append(part)
        new += len(part[0])
        if new < TABLE_WINDOW // 2:
            continue
        joined = [np.concatenate(pieces) for pieces in zip(*waiting, strict=True)]
        order = generator.permutation(len(joined[0]))
        half = len(order) // 2
        yield [column.take(order[:half]) for column in joined]
        waiting, new = [[column.take(order[half:]) for column in joined]], 0
    joined = [np.concatenate(pieces) for pieces in zip(*waiting, strict=True)]
    order = generator.permutation(len(joined[0]))
    yield [column.take(order) for column in joined]


def _tensors(parts: Iterable[list[np.ndarray]], batch: int) -> Iterator[dict[str, Any]]:
    import torch

    rest: list[np.ndarray] | None = None
    for part in parts:
        start = 0
        if rest is not None:
            start = batch - len(rest[0])
            if start > len(part[0]):
                rest = [np.concatenate(pieces) for pieces in zip(rest, part, strict=True)]
                continue
            first = [np.concatenate([old, new[:start]]) for old, new in zip(rest, part, strict=True)]
            yield {name: torch.from_numpy(column) for name, column in zip(COLUMNS, first, strict=True)}
        while start + batch <= len(part[0]):
            copies = (column[start : start + batch].copy() for column in part)
            yield {name: torch.from_numpy(column) for name, column in zip(COLUMNS, copies, strict=True)}
            start += batch
        rest = [column[start:] for column in part]
    if rest is not None and len(rest[0]):
        yield {name: torch.from_numpy(column.copy()) for name, column in zip(COLUMNS, rest, strict=True)}
