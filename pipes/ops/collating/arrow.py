"""Collation of Arrow columns: arrays of numbers, dicts and lists."""

from __future__ import annotations

import math
from itertools import compress
from typing import Any, cast

import numpy as np

from ...core.rows import Array, grid, is_grid
from ...errors import UnfitError
from .misfits import REPAIR, NoTensorError, said
from .rules import Rules


def arrays(column: Any, field: str, rules: Rules, per_row: int = 1) -> object:
    """`column` as an array, a dict of them, or a list of text; each row of the batch is `per_row` of its values."""
    import pyarrow as pa

    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return arrays(column.dictionary_decode(), field, rules, per_row)
    if isinstance(kind, pa.BaseExtensionType) and not is_grid(column):
        return arrays(column.storage, field, rules, per_row)
    if _is_text(kind):
        return cast("list[object]", column.to_pylist())
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (numbers or pa.types.is_null(kind) or pa.types.is_struct(kind) or _is_list(kind) or is_grid(column)):
        raise NoTensorError(field, kind)
    if column.null_count:
        can_be_nan = numbers or pa.types.is_null(kind)
        if rules.nan and can_be_nan:
            return _with_nan(column, field)
        raise _null(column, field, per_row, can_be_nan)
    if is_grid(column):
        return _grid(column, field, rules, per_row)
    if pa.types.is_struct(kind):
        parts = zip(kind, column.flatten(), strict=True)
        return {part.name: arrays(values, f"{field}.{part.name}", rules, per_row) for part, values in parts}
    if _is_list(kind):
        return _lists(column, field, rules, per_row)
    # Arrow's memory must not be written to, and a tensor's may be: hence a copy.
    return np.array(column.to_numpy(zero_copy_only=False))


def _with_nan(column: Any, field: str) -> Array:
    """Numbers with NaN for each null: floats as they are, others as float64 where that holds them exactly."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise UnfitError(
                f"{said(field)}nulls stand among integers beyond 2**53, which float64 does not hold exactly: {error}; "
                "fill the nulls before `.batch`"
            ) from error
    return np.array(column.to_numpy(zero_copy_only=False))


def _null(column: Any, field: str, per_row: int, can_be_nan: bool) -> UnfitError:
    at = next(compress(range(len(column)), column.is_null().to_pylist())) // per_row
    nan = ', or make NaN of those among numbers with `.collate(nulls="nan")`' if can_be_nan else ""
    return UnfitError(
        f"{said(field)}null at row {at + 1} of the batch, and a tensor has no null; fill or drop it before "
        f"`.batch`{nan}"
    )


def _grid(column: Any, field: str, rules: Rules, per_row: int) -> Array:
    values = column.storage.flatten()
    if not values.null_count:
        return np.array(grid(column))
    shape = column.type.shape
    if column.type.permutation is not None:  # whose axes are stored in another order
        raise _null(values, field, per_row * math.prod(shape), can_be_nan=False)
    filled = cast("Array", arrays(values, field, rules, per_row * math.prod(shape)))
    return filled.reshape(len(column), *shape)


def _lists(column: Any, field: str, rules: Rules, per_row: int) -> object:
    fixed: int | None = getattr(column.type, "list_size", None)
    lengths = np.asarray(column.value_lengths()) if fixed is None else np.full(len(column), fixed)
    width = int(lengths[0]) if len(lengths) else 0
    differ = np.flatnonzero(lengths != width)
    if len(differ):
        row, other = int(differ[0]) // per_row, int(lengths[differ[0]])
        raise UnfitError(f"{said(field)}lengths {width} and {other} differ at row {row + 1} of the batch; {REPAIR}")
    values = arrays(column.flatten(), field, rules, per_row * max(width, 1))
    if not isinstance(values, np.ndarray):
        raise NoTensorError(field, column.type)
    return values.reshape(len(column), width, *values.shape[1:])


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: Any) -> bool:
    """Whether `kind` is text or bytes, or lists of them."""
    from pyarrow import types

    if _is_list(kind):
        return _is_text(kind.value_type)
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    more = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(test(kind) for test in (*tests, *more))
