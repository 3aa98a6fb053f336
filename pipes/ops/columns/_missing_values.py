"""What is missing in a column: nulls, and NaN among floats."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...core.column import Array, Column

Mask = npt.NDArray[np.bool_]


def missing_mask(column: Column) -> Mask | None:
    """Whether each value is missing; None if none is. An array is missing only if it is null."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "f" or column.ndim > 1:
            return None
        mask: Mask = np.isnan(column)
        return mask if mask.any() else None
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        numbers, nulls = numbers_and_nulls(column)
        mask = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
        return mask if mask.any() else None
    if not column.null_count:
        return None
    nulls = cast("Any", column).is_null().to_numpy(zero_copy_only=False)
    return cast("Mask", nulls)


def is_missing(value: object) -> bool:
    """Whether a value of a row that is a dict is missing."""
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def numbers_and_nulls(array: Any) -> tuple[Array, Mask | None]:
    """The numbers of an Arrow array, with any number in the place of a null, and which are null; None if none is.

    Arrow's own `fill_null` takes several times as long as the rest of a conversion.
    """
    import pyarrow as pa

    if not array.null_count:
        return array.to_numpy(zero_copy_only=False), None
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    whole = pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], 0, array.offset)
    return cast("Any", whole).to_numpy(zero_copy_only=False), nulls
