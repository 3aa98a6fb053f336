"""`same`: whether two elements are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.skipped import Skipped


def same(one: object, other: object) -> bool:
    """Whether two elements are equal: arrays and tensors by type and value, tables and lists row by row."""
    import pyarrow as pa

    if isinstance(one, Skipped) and isinstance(other, Skipped):
        return one.is_row == other.is_row and len(one.skips) == len(other.skips) and same(one.value, other.value)
    if isinstance(one, pa.RecordBatch) and isinstance(other, pa.RecordBatch):
        return one.schema == other.schema and same(one.to_pylist(), other.to_pylist())
    if hasattr(one, "__array__") or hasattr(other, "__array__"):
        if type(one) is not type(other):
            return False
        a, b = np.asarray(one), np.asarray(other)
        return a.dtype == b.dtype and a.shape == b.shape and bool(_equal(a, b))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, (str, bytes)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)  # NaN


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
