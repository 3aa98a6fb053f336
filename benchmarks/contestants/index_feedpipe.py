"""Ours: an index of files that are not there, written block by block, and opened as one rank.

The rank runs its whole plan and looks up each row group, but reads no rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import feedpipe as fp
from feedpipe.extensions import Block, Cursor, Operator, Order
from feedpipe.files.footers import FileUnit
from feedpipe.files.parquet import Parquet
from feedpipe.files.units import Units
from feedpipe.storage.file_units import FileUnits
from feedpipe.storage.index import BLOCK_FILES, FileBlock, Index, Version, write_version
from feedpipe.storage.listing import Selection

FOLDER = "/data/lake/train"
SCHEMA = pa.schema({"x": pa.int64()})
FOLDER_FILES = 20_000


def blocks(files: int) -> Iterator[FileBlock]:
    """Files with paths of 50 characters, of which 16 are random, and one row group each, of lognormal sizes."""
    for start in range(0, files, BLOCK_FILES):
        count = min(BLOCK_FILES, files - start)
        random = np.random.default_rng(start)
        sizes = random.lognormal(16, 0.6, count).astype(np.int64)
        seals = random.integers(-(2**63), 2**63 - 1, count)
        changed = 1_700_000_000_000 + np.sort(random.integers(0, 10**6, count))
        digits = random.bytes(8 * count).hex()
        paths = [
            f"{FOLDER}/day={(start + k) // FOLDER_FILES:05}/part-{(start + k) % FOLDER_FILES:05}-"
            f"{digits[16 * k : 16 * k + 16]}.parquet"
            for k in range(count)
        ]
        one = np.ones(count, np.int64)
        units = FileUnits([SCHEMA], 0 * one, seals, 4096 * one, one, sizes // 700, 0 * one)
        yield FileBlock.of(pa.array(paths), sizes, changed, units)


def write(files: int, folder: Path) -> None:
    """Write the index, without a listing: nothing holds all paths."""
    selection = Selection(FOLDER, recursive=True)
    version = Version(1, selection.call(), selection.digest(), f"{FOLDER}/", Parquet.units, (), "")
    fields = Parquet.fields[:-1]  # without the length of the footer
    write_version(version, str(folder), None, blocks(files), [SCHEMA], fields)


def measure_write(files: int, folder: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(suffix=".index") as own:
        begin = time.process_time()
        write(files, Path(own))
        cpu = time.process_time() - begin
        size = sum(path.stat().st_size for path in Path(own).iterdir())
    return {"cpu": cpu, "memory": _peak(), "index_megabytes": size / 1e6}


@dataclass(frozen=True)
class Handles(Operator):
    """The number of rows of each row group, as its only row."""

    kind: ClassVar[str] = "handles"
    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    def length(self, stage: Any) -> int:
        return int(stage.input.op.table.rows())  # as a parser has it, so that units are divided by rows

    def blocks(self, stage: Any, at: Cursor, context: Any) -> Iterator[Block]:
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            groups: list[FileUnit] = block.rows
            start = Cursor(block.at.plain, 0, row)
            row += len(groups)
            yield Block([group.rows for group in groups], start, Cursor(block.end.plain, 0, row))


def measure_rank(files: int, ranks: int, folder: str) -> dict[str, Any]:
    read: list[int] = []
    whole = Index._read_block

    def counted(index: Index, number: int) -> FileBlock:
        read.append(index._metadata.row_group(number).total_byte_size)
        return whole(index, number)

    Index._read_block = counted  # type: ignore[method-assign]
    begin = time.process_time()
    listed = fp.list_files(FOLDER, recursive=True, manifest=f"{folder}/{files}.index")
    units: fp.Pipe[FileUnit] = listed.open_files().then(Units(Parquet(), True))
    pipe: fp.Pipe[int] = units.then(Handles()).shuffle(window=2)
    loader = fp.Loader(pipe, rank=ranks // 2, world_size=ranks, even=None, seed=1)
    elements = iter(loader)
    rows = [next(elements)]
    first = sum(read)
    rows += elements
    cpu = time.process_time() - begin
    read_then = list(read)
    total = Index.open(f"{folder}/{files}.index").rows or 0
    return {
        "cpu": cpu,
        "memory": _peak(),
        "first_megabytes": first / 1e6,
        "epoch_megabytes": sum(read_then) / 1e6,
        "blocks": len(read_then),
        "units": len(rows),
        "share": sum(rows) / (total / ranks),
    }


def _peak() -> float:
    """The most memory of this process, in MB. `getrusage` would count that of the process that has started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000
