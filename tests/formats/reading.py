"""Helpers for tests of text formats: chunks of one size, and all rows of some bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from feedpipe.errors import DataError

from ..support.files import TextFormat
from ..support.formats import ChunkReader, ChunkSize


class Always(ChunkSize):
    """Chunks of one size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def next(self) -> int:
        return self.size


def open_reader(data: bytes, form: TextFormat, name: str) -> ChunkReader:
    return ChunkReader(io.BytesIO(data), name, form.last_record_end)


def fix(form: TextFormat, files: Sequence[bytes], name: str) -> Any:
    """Fix names and types by these files."""
    return form.fix((form.head(io.BytesIO(data), f"first-{k}.{name}") for k, data in enumerate(files)), [])


def read_all(data: bytes, form: TextFormat, size: int, name: str) -> tuple[list[Any], list[int], DataError | None]:
    """The rows, their lines, and the error that ended them, if one did."""
    reader = open_reader(data, form, name)
    start, parse = form.start_reading(reader)
    rows: list[Any] = []
    lines: list[int] = []
    parts = (part for chunk in reader.chunks(start, Always(size)) for part in parse(chunk, 0))
    try:
        for part in parts:
            if part.error is not None:
                return rows, lines, part.error
            rows.extend(part.rows)
            lines.extend(form.row_lines(part.chunk))
    except DataError as error:  # of more than one record
        return rows, lines, error
    return rows, lines, None
