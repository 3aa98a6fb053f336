"""Ours: rows of files, in order, shuffled in a window, and shuffled fully out of the files of `load(path)`."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import feedpipe as fp
from feedpipe.writing import load_files

FORMATS = {"Parquet": 600_000, "JSON lines": 100_000}
"""The formats, and the rows of each."""


def write(folder: Path) -> None:
    """Write the files, unless they are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (folder / "rows.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    chance, rows = np.random.default_rng(0), max(FORMATS.values())
    words = ["".join(map(chr, chance.integers(97, 123, 40))) * int(size) for size in chance.integers(1, 10, 2000)]
    table = pa.table(
        {
            "label": np.sort(chance.integers(0, 1000, rows)),
            "x": chance.normal(size=rows).astype(np.float32),
            "text": [words[place] for place in chance.integers(0, len(words), rows)],
        }
    )
    pq.write_table(table, folder / "rows.parquet", row_group_size=20_000)
    with (folder / "rows.jsonl").open("w") as lines:
        for row in table[: FORMATS["JSON lines"]].to_pylist():
            lines.write(json.dumps(row) + "\n")


def _read(form: str, folder: str) -> fp.Pipe[Any]:
    return fp.read_parquet(f"{folder}/rows.parquet") if form == "Parquet" else fp.read_jsonl(f"{folder}/rows.jsonl")


def _loaded(form: str, folder: str) -> fp.Pipe[Any]:
    return _read(form, folder).load(f"{folder}/loaded {form}", progress=False)


def measure(form: str, way: str, folder: str) -> dict[str, Any]:
    """Seconds of a pass, for each row, after a first one; of `load`, those until all rows are written."""
    load_files.FILE_BYTES = 2**22  # many files, as of data that does not fit into memory
    if way == "load":
        len(fp.from_sequence([1]).load(f"{folder}/warm", progress=False))  # imports
        for _ in _read(form, folder).batch(256):
            pass
        shutil.rmtree(f"{folder}/loaded {form}", ignore_errors=True)
        start = time.perf_counter()
        count = len(_loaded(form, folder))
        return {"seconds_each": (time.perf_counter() - start) / count}
    pipe = _loaded(form, folder).shuffle() if way == "full" else _read(form, folder)
    if way == "window":
        pipe = pipe.shuffle(window=50_000)
    batches = pipe.batch(256)
    for _ in range(2):
        start, count = time.perf_counter(), 0
        for batch in batches:
            count += len(batch.columns["text"])
    return {"seconds_each": (time.perf_counter() - start) / count}
