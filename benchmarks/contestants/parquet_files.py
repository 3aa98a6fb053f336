"""Columns as files: bytes and decoding of what `write_parquet` writes, and of what pyarrow does.

Decoding is the same for all, by one thread of Arrow, as a worker does it.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import feedpipe as fp

GROUP = 100_000
PASSES = 5


def columns(rows: int) -> dict[str, pa.Array[Any]]:
    """Columns as they come in practice; text is that of this package's own sources."""
    random = np.random.default_rng(0)
    package = Path(fp.__file__ or "").parent
    lines = [line for path in sorted(package.rglob("*.py")) for line in path.read_text().splitlines()]
    words = [word for line in lines for word in line.split()]
    return {
        "float32, a network's activations": pa.array(random.standard_normal(rows, dtype=np.float32)),
        "float32, a signal": pa.array(np.cumsum(random.standard_normal(rows)).astype(np.float32)),
        "float64, prices": pa.array(np.round(random.lognormal(3, 1, rows), 2)),
        "float64, some missing": pa.array(random.standard_normal(rows), mask=random.random(rows) < 0.05),
        "int64, ids": pa.array(np.arange(rows)),
        "int64, hashes": pa.array(random.integers(0, 2**63, rows)),
        "int64, counts": pa.array(random.zipf(1.3, rows).clip(0, 2**31)),
        "int64, labels": pa.array(random.integers(0, 10, rows)),
        "text, words": pa.array([words[k % len(words)] for k in range(rows)]),
        "text, lines": pa.array([lines[k % len(lines)] for k in range(rows)]),
    }


def measure(folder: str, column: str, rows: int) -> dict[str, Any]:
    """Bytes of a value, and the nanoseconds of its decoding: the best of some interleaved passes."""
    pa.set_cpu_count(1)
    table = pa.table({"x": columns(rows)[column]})
    with tempfile.TemporaryDirectory(dir=folder) as own:
        manifest = fp.write_parquet(fp.from_table(table), f"{own}/feedpipe", progress=False)
        files = {"feedpipe": Path(manifest).parent / "part-00000.parquet"}
        others: dict[str, dict[str, Any]] = {"pyarrow": {}, "zstd": {"compression": "zstd", "row_group_size": GROUP}}
        for name, options in others.items():
            files[name] = Path(own) / name
            parquet.write_table(table, files[name], **options)
        seconds = dict.fromkeys(files, math.inf)
        for _ in range(PASSES):
            for name, path in files.items():
                seconds[name] = min(seconds[name], _decode(path))
        sizes = {f"{name}_bytes": path.stat().st_size / rows for name, path in files.items()}
    return sizes | {f"{name}_ns": best / rows * 1e9 for name, best in seconds.items()}


def _decode(path: Path) -> float:
    start = time.process_time()
    with path.open("rb") as stream:
        file = parquet.ParquetFile(stream, pre_buffer=False, buffer_size=2**16)
        for _ in file.iter_batches(2**17, use_threads=False):
            pass
    return time.process_time() - start
