"""Epochs of one loader with and without counting, in pairs, in one process on one CPU.

A third epoch of each pair is the control: a second one without. Its ratio says how much two equal epochs differ here.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import feedpipe as fp
from feedpipe.core import times

MIN_PAIRS = 8


def element(_: Path) -> fp.Pipe[Any]:
    return fp.from_sequence(range(1))


def rows(_: Path) -> fp.Pipe[Any]:
    return fp.from_sequence(range(100_000))


def python(_: Path) -> fp.Pipe[Any]:
    def doubled(row: Any) -> dict[str, Any]:
        return {"x": row["x"] * 2, "y": row["y"]}

    return fp.from_arrays(_arrays(30_000)).shuffle().map(doubled).batch(32).collate()


def columns(_: Path) -> fp.Pipe[Any]:
    return fp.from_arrays(_arrays(500_000)).shuffle().batch(256).collate()


def images(_: Path) -> fp.Pipe[Any]:
    pixels = np.random.default_rng(0).integers(0, 255, (8192, 64, 64, 3), dtype=np.uint8)
    return fp.from_arrays({"x": pixels, "y": np.arange(8192)}).shuffle().batch(64).collate()


def deep(_: Path) -> fp.Pipe[Any]:
    pipe: fp.Pipe[Any] = fp.from_sequence(range(1, 100_001))
    for _number in range(10):
        pipe = pipe.map(abs)
    return pipe.batch(32)


def parquet(folder: Path) -> fp.Pipe[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"a": np.arange(1_000_000), "b": np.random.default_rng(0).normal(size=1_000_000)})
    pq.write_table(table, folder / "rows.parquet", row_group_size=50_000)
    return fp.read_parquet(folder / "rows.parquet").shuffle(window=10_000).batch(256).collate()


def jsonl(folder: Path) -> fp.Pipe[Any]:
    (folder / "rows.jsonl").write_text("\n".join(f'{{"a": {row}, "b": "w{row}"}}' for row in range(60_000)))

    def number(row: Any) -> int:
        return int(row["a"])

    return fp.read_jsonl(folder / "rows.jsonl").map(number).filter(lambda a: a % 2 == 1).batch(32).collate()


_PIPES: dict[str, Callable[[Path], fp.Pipe[Any]]] = {
    "element": element,
    "rows": rows,
    "python": python,
    "columns": columns,
    "images": images,
    "deep": deep,
    "parquet": parquet,
    "jsonl": jsonl,
}


def _arrays(count: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(0).normal(size=(count, 8)).astype("f4"), "y": np.arange(count)}


def measure(pipe: str, seconds: float) -> dict[str, Any]:
    """CPU times of epochs, and medians of the ratios of neighbours."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder, fp.Loader(_PIPES[pipe](Path(folder)), seed=1) as loader:
        _epoch(loader, seeing=True)
        report = loader.report()
        blocks = sum(table.blocks for table in report.ranks[0].tables)
        measured = [operator.measured for operator in report.operators if operator.measured]
        ends = time.monotonic() + seconds
        turns: list[tuple[float, float, float]] = []
        while time.monotonic() < ends or len(turns) < MIN_PAIRS:
            order = (True, False, False) if len(turns) % 2 else (False, False, True)
            first, middle, last = (_epoch(loader, seeing=seeing) for seeing in order)
            turns.append((first, middle, last) if order[0] else (last, middle, first))
    ratios = sorted(seen / without for seen, without, _ in turns)
    return {
        "seconds": statistics.median(without for _, without, _ in turns),
        "blocks": blocks,
        "pairs": len(turns),
        "ratio": statistics.median(ratios),
        "low": ratios[len(ratios) // 4],
        "high": ratios[3 * len(ratios) // 4],
        "control": statistics.median(other / without for _, without, other in turns),
        "measured": statistics.median(measured or [0.0]),
    }


def _epoch(loader: fp.Loader[Any], *, seeing: bool) -> float:
    times.SEEING = seeing
    start = time.process_time()
    for _ in loader:
        pass
    return time.process_time() - start
