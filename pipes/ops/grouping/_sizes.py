"""Sizes of rows: numbers in a column, lengths of its lists and texts, or what a function of the row returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ...core.block import Block
from ...core.column import Column
from ...core.context import Context
from ...core.operator import Operator, StageView
from ...core.rows import BlockRows, Rows, take
from ...engine.apply import map_until_error
from ...errors import ArgumentTypeError, UnfitError, with_call_site
from .._data_error import data_error

Measure: TypeAlias = "str | Callable[..., object]"
Sizes: TypeAlias = "npt.NDArray[np.int64 | np.float64]"


def check_measure(name: str, value: object) -> None:
    if not isinstance(value, str) and not isinstance(value, Callable):  # type: ignore[arg-type]
        raise ArgumentTypeError(
            with_call_site(f"`{name}` must be the name of a column or a function of a row but got: {value!r}")
        )


def sizes_of(
    rows: BlockRows, measure: Measure, argument: str, limit: float = math.inf
) -> tuple[Sizes, Exception | None]:
    """The sizes of the rows before the first that has none, and what is wrong with that row.

    Args:
        rows: the rows of a block or a segment.
        measure: the name of a column, or a function.
        argument: what the user calls `measure`.
        limit: the largest size of a row.
    """
    error: Exception | None = None
    if isinstance(rows, Rows) and isinstance(measure, str):
        try:
            sizes = _column_sizes(_column(rows, measure))
        except UnfitError as unfit:
            return np.zeros(0, np.int64), unfit
    else:
        function = partial(_item_size, measure) if isinstance(measure, str) else measure
        values, error = map_until_error(function, rows)
        sizes = np.array(values) if all(map(_is_number, values)) else np.array([_number(value) for value in values])
    if not len(sizes):
        return np.zeros(0, np.int64), error
    bad = np.flatnonzero(~(sizes >= 0))
    if len(bad):
        sizes, error = sizes[: bad[0]], _no_size(rows, int(bad[0]), measure, argument)
    above = np.flatnonzero(sizes > limit)
    if len(above):
        size = sizes[above[0]].item()
        sizes, error = (
            sizes[: above[0]],
            UnfitError(
                f"a row of size {size} is above the `limit` of {limit}; raise it, or leave the row out with `.filter`"
            ),
        )
    return sizes, error


def segment_sizes(
    op: Operator,
    stage: StageView,
    context: Context,
    segment: list[Block],
    measure: Measure,
    argument: str,
    limit: float = math.inf,
) -> Sizes:
    """The sizes of the rows of a segment.

    Raises:
        DataError: a row has none.
        RowError: the function failed on a row.
    """
    parts: list[Sizes] = []
    for block in segment:
        sizes, error = sizes_of(block.rows, measure, argument, limit)
        if error is not None:
            raise data_error(op, stage.failed(error, block.at.advance(len(sizes)), context))
        parts.append(sizes)
    return np.concatenate(parts)


def _column(rows: Rows, name: str) -> Column:
    try:
        return rows[name]
    except KeyError:
        raise UnfitError(f"rows have no column {name!r}; their columns are {list(rows.columns)}") from None


def _column_sizes(column: Column) -> Sizes:
    """The sizes of the rows of a column; NaN for those that have none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, np.ndarray):
        if column.ndim > 1:
            return np.full(len(column), column.shape[1])
        return cast("Sizes", column) if column.dtype.kind in "iuf" else np.full(len(column), np.nan)
    values: Any = column
    kind: Any = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = pc.utf8_length(values)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = pc.binary_length(values)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = pc.list_value_length(values)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.full(len(column), np.nan)
    return cast("Sizes", values.to_numpy(zero_copy_only=False))  # a null becomes NaN


def _item_size(name: str, row: object) -> object:
    if not isinstance(row, Mapping) or name not in row:
        raise UnfitError(
            f"rows must be dicts with {name!r}, or `.map` before must make them so, but one is: {row!r:.80}"
        )
    value: object = cast("Mapping[str, object]", row)[name]
    return len(value) if isinstance(value, Sized) else value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _number(value: object) -> float:
    return float(cast("float", value)) if _is_number(value) else np.nan


def _no_size(rows: BlockRows, index: int, measure: Measure, argument: str) -> UnfitError:
    row = next(iter(take(rows, range(index, index + 1))))
    value = cast("Any", row)[measure] if isinstance(measure, str) else measure(row)
    repair = "" if callable(measure) else ", or an item that has a length"
    return UnfitError(f"`{argument}` must give a number >= 0 for each row{repair} but gave: {value!r:.80}")
