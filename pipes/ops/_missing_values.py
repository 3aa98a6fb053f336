"""What is missing in a column: nulls, and NaN among floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.column import Column

Mask = npt.NDArray[np.bool_]


def missing_mask(column: Column) -> Mask | None:
    """Whether each value is missing; None if none is. An array is missing only if it is null."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "f" or column.ndim > 1:
            return None
        mask: Mask = np.isnan(column)
        return mask if mask.any() else None
    import pyarrow as pa

    is_float = pa.types.is_floating(column.type)
    if not column.null_count and not is_float:
        return None
    return _any(column.is_null(nan_is_null=is_float))


def is_missing(value: object) -> bool:
    """Whether a value of a row that is a dict is missing."""
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def _any(nulls: Any) -> Mask | None:
    mask: Mask = nulls.to_numpy(zero_copy_only=False)
    return mask if mask.any() else None
