"""Collation of Arrow columns: to arrays of numbers, dicts and lists."""

from __future__ import annotations

import math
from itertools import compress
from typing import Any, cast

import numpy as np

from ....core.column import Array, grid, is_grid
from ....errors import UnfitError
from .rules import Rules
from .unfit import REPAIR, NoTensorError, unfit


def column_arrays(column: Any, field: str, rules: Rules, per_row: int = 1) -> object:
    """`column` as an array, as a dict of arrays, or, if it is text, as a list.

    Args:
        column: an Arrow array.
        field: its name in errors.
        rules: how to collate.
        per_row: how many values of `column` belong to one row of the batch.
    """
    import pyarrow as pa

    arrow_type: Any = column.type
    if pa.types.is_dictionary(arrow_type):
        return column_arrays(column.dictionary_decode(), field, rules, per_row)
    if isinstance(arrow_type, pa.BaseExtensionType) and not is_grid(column):
        return column_arrays(column.storage, field, rules, per_row)
    if _is_text(arrow_type):
        return cast("list[object]", column.to_pylist())
    is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_boolean(arrow_type)
    can_be_nan = is_number or pa.types.is_null(arrow_type)
    if not (can_be_nan or pa.types.is_struct(arrow_type) or _is_list(arrow_type) or is_grid(column)):
        raise NoTensorError(field, arrow_type)
    if column.null_count:
        if rules.nan and can_be_nan:
            return _with_nan(column, field)
        raise _null_error(column, field, per_row, can_be_nan)
    if is_grid(column):
        return _grid_array(column, field, rules, per_row)
    if pa.types.is_struct(arrow_type):
        parts = zip(arrow_type, column.flatten(), strict=True)
        return {part.name: column_arrays(values, f"{field}.{part.name}", rules, per_row) for part, values in parts}
    if _is_list(arrow_type):
        return _list_array(column, field, rules, per_row)
    # Arrow's memory is read-only, and tensors can be written to: hence a copy.
    return np.array(column.to_numpy(zero_copy_only=False))


def _with_nan(column: Any, field: str) -> Array:
    """Numbers with NaN for each null. Floats keep their dtype; other numbers become float64 if that is exact."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise unfit(
                field,
                "there are nulls among integers beyond 2**53, which float64 does not represent exactly: "
                f"{error}; fill the nulls before `.batch`",
            ) from error
    return np.array(column.to_numpy(zero_copy_only=False))


def _null_error(column: Any, field: str, per_row: int, can_be_nan: bool) -> UnfitError:
    row = next(compress(range(len(column)), column.is_null().to_pylist())) // per_row
    nan = ', or turn nulls among numbers into NaN with `.collate(nulls="nan")`' if can_be_nan else ""
    return unfit(
        field, f"null at row {row + 1} of the batch, and a tensor has no null; fill or drop it before `.batch`{nan}"
    )


def _grid_array(column: Any, field: str, rules: Rules, per_row: int) -> Array:
    values = column.storage.flatten()
    if not values.null_count:
        return np.array(grid(column))
    shape = column.type.shape
    if column.type.permutation is not None:  # the values are stored in another order than that of the axes
        raise _null_error(values, field, per_row * math.prod(shape), can_be_nan=False)
    numbers = cast("Array", column_arrays(values, field, rules, per_row * math.prod(shape)))
    return numbers.reshape(len(column), *shape)


def _list_array(column: Any, field: str, rules: Rules, per_row: int) -> object:
    fixed: int | None = getattr(column.type, "list_size", None)
    lengths = np.asarray(column.value_lengths()) if fixed is None else np.full(len(column), fixed)
    width = int(lengths[0]) if len(lengths) else 0
    different = np.flatnonzero(lengths != width)
    if len(different):
        row, other = int(different[0]) // per_row, int(lengths[different[0]])
        raise unfit(field, f"lengths {width} and {other} differ at row {row + 1} of the batch; {REPAIR}")
    values = column_arrays(column.flatten(), field, rules, per_row * max(width, 1))
    if not isinstance(values, np.ndarray):
        raise NoTensorError(field, column.type)
    return values.reshape(len(column), width, *values.shape[1:])


def _is_list(arrow_type: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def _is_text(arrow_type: Any) -> bool:
    """Whether `arrow_type` is text or bytes, or a list of them."""
    from pyarrow import types

    if _is_list(arrow_type):
        return _is_text(arrow_type.value_type)
    is_string = (types.is_string, types.is_large_string, types.is_string_view)
    is_binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(arrow_type) for test in (*is_string, *is_binary))
