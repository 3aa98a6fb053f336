"""`drop_null` and `fill_null`: leave out missing values, or fill them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from ..core.arrow import arrow_array, arrow_scalar
from ..core.block import Block
from ..core.context import Context
from ..core.lazy import pa, pc
from ..core.operator import Operator, StageView
from ..core.rows import BlockRows, Column, Rows, column_names, is_grid, read_only, scalars, select_columns
from ..engine.calls import map_until_error
from ..errors import ArgumentTypeError, UnfitError
from ..formats.columns import to_column
from ._column_operator import (
    ColumnConversion,
    Mask,
    check_column_names,
    is_missing,
    missing_mask,
    numbers_and_nulls,
    whole_grid,
)
from ._filter_rows import FilterResult, FilterRows
from ._shared import as_mapping, existing_columns, fit_to_schema

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def drop_null(pipe: Pipe[T], /, columns: str | Sequence[str] | None = None) -> Pipe[T]:
    """Leave out rows in which a value is missing: a null, or NaN among floats.

    Element: the other rows, as they are. Order: the input's. Length: unknown; streamed. State: a position in the input.
    Memory: one block.

    Args:
        columns: the names of the columns to look at; by default all.

    Raises:
        PlanError: there is no such column. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> pipe = fp.from_table(pa.table({"id": [1, 2, 3], "x": [0.5, None, float("nan")]}))
        >>> list(pipe.drop_null("x"))
        [{'id': 1, 'x': 0.5}]
    """
    return pipe.then(DropNull(None if columns is None else check_column_names(columns)))


@dataclass(frozen=True, eq=False, repr=False)
class DropNull(FilterRows):
    kind: ClassVar[str] = "drop_null"

    names: tuple[str, ...] | None = None

    def call(self) -> str:
        return f"drop_null({'' if self.names is None else list(self.names)})"

    def resolve(self, stage: StageView) -> Operator:
        fit_to_schema(self, stage, lambda schema: existing_columns(self.names or (), schema.names))
        return self

    def select(self, stage: StageView, block: Block, context: Context) -> FilterResult:
        incomplete, error = self._incomplete(block.rows)
        if not incomplete.any() and error is None:
            return FilterResult(block.rows, block.origins, len(block), None)
        return FilterResult(*block.select(np.flatnonzero(~incomplete)), len(incomplete), error)

    def _incomplete(self, rows: BlockRows) -> tuple[Mask, Exception | None]:
        """For each row, if it lacks a value, up to the first that lacks a column; and the error of that row."""
        if not isinstance(rows, Rows):
            flags, error = map_until_error(self._is_incomplete, rows)
            return np.array(flags, np.bool_), error
        names = column_names(rows)
        try:
            tested = select_columns(rows, existing_columns(self.names or names, names))
        except UnfitError as error:
            return np.zeros(0, np.bool_), error
        incomplete: Mask = np.zeros(len(rows), np.bool_)
        for column in tested.columns.values():
            mask = missing_mask(column)
            if mask is not None:
                incomplete |= mask
        return incomplete, None

    def _is_incomplete(self, row: object) -> bool:
        values = as_mapping(row)
        names = values if self.names is None else existing_columns(self.names, values)
        return any(is_missing(values[name]) for name in names)


def fill_null(pipe: Pipe[T], /, values: Mapping[str, object]) -> Pipe[T]:
    """Replace missing values: nulls, and NaN among floats.

    Element: a row with the same columns, whose types stay. Order and length are the input's. Indexed if the input is.
    State: none.

    Args:
        values: for each column by name a value of its type. A fitted statistic may give it, such as `stats["x"].mean`.

    Raises:
        PlanError: there is no such column, or its type does not have the value. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp, pyarrow as pa
        >>> table = pa.table({"x": [1.5, None], "city": [None, "Rome"]})
        >>> list(fp.from_table(table).fill_null({"x": 0, "city": "unknown"}))
        [{'x': 1.5, 'city': 'unknown'}, {'x': 0.0, 'city': 'Rome'}]
    """
    return pipe.then(FillNull(values))


@dataclass(frozen=True, eq=False, repr=False)
class FillNull(ColumnConversion):
    kind: ClassVar[str] = "fill_null"

    values: Mapping[str, object]

    def __post_init__(self) -> None:
        if not (
            isinstance(cast("object", self.values), Mapping)
            and self.values
            and all(isinstance(name, str) for name in self.values)
        ):
            raise ArgumentTypeError(
                f'`values` must map names of columns to values, such as {{"x": 0}}, but got: {self.values!r}'
            )
        values = dict(self.values)
        for name, value in values.items():
            values[name] = value.item() if isinstance(value, np.generic) else value
            if value is None or value != value:
                raise ArgumentTypeError(f"the value for {name!r} must not be missing but got: {value}")
        object.__setattr__(self, "values", values)

    def converted(self) -> Sequence[str]:
        return list(self.values)

    def convert(self, name: str, column: Column) -> Column:
        value: Any = self.values[name]
        if not isinstance(column, np.ndarray) and is_grid(column):
            column = whole_grid(column)
        if isinstance(column, np.ndarray):
            _check_fits(value, pa.from_numpy_dtype(column.dtype))
            nan = np.isnan(column) if column.dtype.kind == "f" else np.False_
            return read_only(np.where(nan, np.asarray(value, column.dtype), column)) if nan.any() else column
        array: Any = column
        if pa.types.is_null(array.type):
            return to_column(pa.repeat(arrow_scalar(value), len(array)))
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        _check_fits(value, array.type)
        mask = missing_mask(array)
        if mask is not None and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            numbers, _ = numbers_and_nulls(array)
            return read_only(np.where(mask, np.asarray(value, numbers.dtype), numbers))
        if mask is None:
            return to_column(array)
        return to_column(pc.if_else(arrow_array(mask), arrow_scalar(value, array.type), array))

    def row_function(self) -> Callable[[object], object]:
        def fill(row: object) -> dict[str, object]:
            values = dict(as_mapping(row))
            for name in existing_columns(self.values, values):
                value = values[name]
                if is_missing(value):
                    values[name] = self.values[name]
                elif isinstance(value, np.ndarray) and value.ndim:
                    values[name] = scalars(self.convert(name, value[None]))[0]
            return values

        return fill


def _check_fits(value: Any, kind: Any) -> None:
    """Raise an `UnfitError` if a column of type `kind` cannot have the value."""
    try:
        item = arrow_scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError):
        item = None
    if item is None or (item != value and not pa.types.is_floating(kind)):
        raise UnfitError(
            f"is of type {kind}, which does not have the value {value!r}; `.cast` the column, or give another value"
        )
