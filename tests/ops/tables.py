"""The same rows as columns and as dicts, by position and in order: every operator on columns must treat them alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import feedpipe as fp

TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "text": ["a", None, "c", "d", "e"],
        "half": [0.5, 1.0, 1.5, 2.0, 2.5],
        "tags": [["u"], [], None, ["v", "w"], ["x"]],
    }
)


def streamed(pipe: fp.Pipe[Any]) -> fp.Pipe[Any]:
    """The same rows, in order alone."""
    return pipe.filter(lambda row: True)


def variants(table: pa.Table = TABLE) -> dict[str, fp.Pipe[Any]]:
    """Pipes of the rows of `table`, by how they are stored."""
    columns = fp.from_table(table)
    rows = fp.from_sequence(table.to_pylist())
    return {
        "columns": columns,
        "streamed columns": streamed(columns),
        "dicts": rows,
        "streamed dicts": streamed(rows),
    }
