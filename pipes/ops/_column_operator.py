"""The bases of operators that change columns, with missing values, numbers, and expressions of `pyarrow.compute`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array, numpy_array
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.lazy import pa
from ..core.operator import Operator, StageView
from ..core.rows import (
    Array,
    BlockRows,
    Column,
    Indices,
    Rows,
    column_names,
    grid,
    is_grid,
    read_only,
    scalars,
    select_columns,
    take,
    to_arrow,
)
from ..engine.calls import map_until_error
from ..errors import UnfitError
from ..formats.columns import check_names
from ..formats.expressions import evaluate, expression_problem, used_columns
from ._shared import RowByRow, as_mapping, convert_until_error, data_error, existing_columns, fit_to_schema


class ColumnOperator(RowByRow, ABC):
    """Converts the columns of a table as a whole, and rows that are dicts one by one.

    If the columns are known without a run, a wrong name is an error before the first row.
    """

    needs_positions: ClassVar[bool] = False  # type: ignore[misc]

    @abstractmethod
    def schema_of(self, schema: pa.Schema) -> pa.Schema | None:
        """Return the columns of the output, given those of the input; None if only a run can tell.

        Raises:
            UnfitError: the operator does not fit the columns.
        """

    @abstractmethod
    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        """Convert the rows of a table.

        Raises:
            UnfitError: as in `schema_of`, or a row does not fit.
        """

    @abstractmethod
    def row_function(self) -> Callable[[object], object]:
        """Return a function that converts the rows of one block that are dicts. It raises an `UnfitError`."""

    def resolve(self, stage: StageView) -> Operator:
        self.schema(stage)  # so that a wrong name fails here
        return self

    def within(self, rows: range) -> Operator:
        return self

    def schema(self, stage: StageView) -> pa.Schema | None:
        return fit_to_schema(self, stage, self.schema_of)

    def row_error(self, error: Exception) -> Exception:
        return data_error(self, error)

    def results(
        self,
        stage: StageView,
        rows: BlockRows,
        positions: Indices,
        place: Callable[[int], Cursor | int],
        context: Context,
    ) -> tuple[BlockRows, Exception | None]:
        if not isinstance(rows, Rows):
            return map_until_error(self.row_function(), rows)
        converted, error = convert_until_error(lambda part: self.convert_table(stage, part), rows)
        return [] if converted is None else converted, error


# Missing values: nulls, and NaN among floats.


Mask = npt.NDArray[np.bool_]


def missing_mask(column: Column) -> Mask | None:
    """Return whether each value is missing; None if none is. An array is missing only if it is null."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "f" or column.ndim > 1:
            return None
        mask: Mask = np.isnan(column)
        return mask if mask.any() else None
    if pa.types.is_floating(column.type):
        numbers, nulls = numbers_and_nulls(column)
        mask = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
        return mask if mask.any() else None
    if not column.null_count:
        return None
    return numpy_array(cast("Any", column).is_null())


def is_missing(value: object) -> bool:
    """Whether a value of a row that is a dict is missing."""
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def numbers_and_nulls(array: Any) -> tuple[Array, Mask | None]:
    """Return the numbers of an Arrow array, any number for a null, and a mask of the nulls; None if there are none.

    Arrow's own `fill_null` takes several times as long as the rest of a conversion.
    """
    if not array.null_count:
        return numpy_array(array), None
    nulls = numpy_array(array.is_null())
    whole = pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], 0, array.offset)
    return numpy_array(whole), nulls


# Operators that replace the values of some columns, such as `clip`.


class ColumnConversion(ColumnOperator):
    """Replaces columns by others of the same name. Each new value depends on the old one alone."""

    @abstractmethod
    def converted(self) -> Sequence[str]:
        """Return the names of the columns."""

    @abstractmethod
    def convert(self, name: str, column: Column) -> Column:
        """Return the new column.

        Raises:
            UnfitError: the column is of another type, or has a value that cannot be converted.
        """

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        for name in existing_columns(self.converted(), schema.names):
            types[name] = to_arrow(self._convert_column(name, pa.nulls(0, types[name]))).type
        return pa.schema(list(types.items()))

    def convert_table(self, stage: StageView, rows: Rows) -> Rows:
        columns = dict(rows.columns)
        for name in existing_columns(self.converted(), columns):
            columns[name] = self._convert_column(name, columns[name])
        return Rows(columns, len(rows))

    def row_function(self) -> Callable[[object], object]:
        def convert(row: object) -> dict[str, object]:
            values = dict(as_mapping(row))
            for name in existing_columns(self.converted(), values):
                values[name] = scalars(self._convert_column(name, _column_of_value(values[name], name)))[0]
            return values

        return convert

    def _convert_column(self, name: str, column: Column) -> Column:
        try:
            return self.convert(name, column)
        except UnfitError as error:
            raise UnfitError(f"column {name!r} {error}") from error
        except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise UnfitError(f"column {name!r} of type {type_name(column)} cannot be converted: {reason}") from error


def type_name(column: Column) -> str:
    """Return the type of a column as text for errors."""
    if not isinstance(column, np.ndarray):
        return str(column.type)
    return str(column.dtype) + (f" and shape {column.shape[1:]}" if column.ndim > 1 else "")


def check_column_names(value: object) -> tuple[str, ...]:
    """Check the argument `columns`: a name, or a list of names."""
    return tuple(check_names("columns", [value] if isinstance(value, str) else value) or ())


def map_numbers(column: Column, function: Callable[[Array], Any]) -> Column:
    """Apply `function` to the array of the numbers of a column. Nulls stay null.

    Raises:
        UnfitError: the column has no numbers, or is one of arrays and has nulls.
    """
    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            raise _not_numbers(column)
        return read_only(function(column))
    if is_grid(column):
        return read_only(function(whole_grid(column)))
    array: Any = column
    if pa.types.is_null(array.type):
        nothing: Any = pa.from_numpy_dtype(function(np.zeros(0)).dtype)
        return cast("Column", pa.nulls(len(array), nothing))
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    elif not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)):
        raise _not_numbers(column)
    numbers, nulls = numbers_and_nulls(array)
    if nulls is None:
        return read_only(function(numbers))
    with np.errstate(all="ignore"):  # a null has any number
        return cast("Column", arrow_array(function(numbers), missing=nulls))


def _not_numbers(column: Column) -> UnfitError:
    return UnfitError(f"is of type {type_name(column)}, and numbers are needed; `.cast` parses text that is numbers")


def whole_grid(column: Any) -> Array:
    """Return a column of arrays, which must have no nulls, as one array."""
    if column.null_count:
        raise UnfitError("has nulls in place of arrays; `.drop_null` leaves out these rows")
    return grid(column)


def _column_of_value(value: object, name: str) -> Column:
    """Make a column of one value of a row that is a dict."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value[None]
    try:
        return cast("Column", arrow_array([value]))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(f"column {name!r}: {value!r:.80} cannot be converted: {error}") from error


# Expressions of `pyarrow.compute` on rows of a table.


Problem = Callable[[Any, Mapping[str, Any]], str | None]

_MISSING_FIELD = re.compile(r"No match for FieldRef.Name\((.*)\)")


def check_fit(
    expressions: Sequence[Any], schema: pa.Schema, problem_of: Problem = expression_problem
) -> dict[str, pa.DataType]:
    """Check that the expressions fit the columns; return the types of the columns by name.

    Raises:
        UnfitError: `problem_of` has a reason why an expression does not fit.
    """
    types = dict(zip(schema.names, schema.types, strict=True))
    for expression in expressions:
        if (problem := problem_of(expression, types)) is not None:
            if missing := _MISSING_FIELD.fullmatch(problem):
                existing_columns([missing[1]], schema.names)
            raise UnfitError(f"the expression does not fit the columns: {problem}")
    return types


def values_of(
    expressions: Sequence[Any], stage: StageView, rows: Rows, problem_of: Problem = expression_problem
) -> list[Any]:
    """Evaluate expressions on rows of a table, to an Arrow array each. Columns that they do not use are not touched.

    Raises:
        UnfitError: an expression does not fit the columns, or has no value for one of the rows.
    """

    def used() -> list[str]:
        types = check_fit(expressions, cast("Rows", take(rows, range(0))).arrow.schema, problem_of)
        return list({name: None for expression in expressions for name in used_columns(expression, types)})

    columns = existing_columns(stage.memo("columns", used), column_names(rows))
    batch = select_columns(rows, columns).arrow
    try:
        return evaluate(expressions, dict(zip(columns, batch.columns, strict=True)), len(rows))
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError) as error:
        raise UnfitError(" ".join(str(error).split())) from error
