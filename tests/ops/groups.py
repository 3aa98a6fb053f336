"""What the tests of grouping operators share: the same rows as dicts and as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import feedpipe as fp

numbers = st.lists(st.integers(0, 6), max_size=30)


def rows(numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Rows with a key, a number, a text and a list; `n` numbers the rows."""
    return [{"n": n, "x": x, "text": "é" * x, "tokens": [1.5] * x} for n, x in enumerate(numbers)]


def pipes(numbers: Sequence[int]) -> list[fp.Pipe[Any]]:
    """The rows as dicts and as columns."""
    types = pa.schema({"n": pa.int64(), "x": pa.int32(), "text": pa.string(), "tokens": pa.list_(pa.float64())})
    return [fp.from_sequence(rows(numbers)), fp.from_table(pa.Table.from_pylist(rows(numbers), types))]


def places(groups: Sequence[Any]) -> list[list[int]]:
    """The numbers of the rows in each group."""
    return [[row["n"] for row in group] for group in groups]
