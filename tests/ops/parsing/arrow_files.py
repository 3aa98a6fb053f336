"""Arrow files and streams with rows whose numbers a test can foretell."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import feedpipe as fp

FILE, STREAM = pa.ipc.new_file, pa.ipc.new_stream
WAYS = pytest.mark.parametrize("indexed", [False, True])


def encoded(table: Any, size: int | None = None, *, form: Any = FILE, compression: str | None = None) -> bytes:
    table = table if isinstance(table, pa.Table) else pa.table(table)
    sink = io.BytesIO()
    with form(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=size)
    return sink.getvalue()


def write(path: Path, table: Any, size: int | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(table, size, **options))
    return path


def parsed(files: list[Path], **options: Any) -> Any:
    return fp.from_sequence([str(file) for file in files]).open_files().parse_arrow(**options)


def counted(folder: Path, counts: list[int], size: int, **options: Any) -> list[Path]:
    """Files with these numbers of rows; ids continue from file to file."""
    files, first = [], 0
    for k, count in enumerate(counts):
        ids = range(first, first + count)
        table = pa.table({"id": pa.array(ids, pa.int64()), "t": pa.array([str(i) for i in ids], pa.string())})
        files.append(write(folder / f"{k}.arrow", table, size, **options))
        first += count
    return files


def listed(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "t": str(i)} for i in range(count)]
