"""Ours: documents as rows, and as a column of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import feedpipe as fp

from .pack_tasks import LENGTH, described, timed


def _of_rows(documents: list[Any]) -> Iterable[Any]:
    return fp.from_sequence(documents).pack(LENGTH)


def _of_columns(documents: list[Any]) -> Iterable[Any]:
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(documents)))
    return fp.from_table(pa.table({"tokens": tokens})).pack(LENGTH, column="tokens")


WAYS = {"rows": _of_rows, "columns": _of_columns}


def measure(documents: int, way: str) -> dict[str, Any]:
    return timed(WAYS[way], documents)


def check(documents: int, way: str) -> dict[str, Any]:
    return described(WAYS[way], documents)
