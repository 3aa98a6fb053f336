"""`ColumnConversion`: the base of the operators that replace the values of some columns, such as `clip`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...core.column import Array, Column, grid, is_grid, read_only, scalars, to_arrow
from ...core.operator import StageView
from ...core.rows import Rows
from ...errors import UnfitError
from ...formats.tables.columns import check_names
from .._column_arguments import existing_columns
from .._unfit_rows import as_mapping
from ._column_operator import ColumnOperator
from ._missing_values import numbers_and_nulls

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnConversion(ColumnOperator):
    """Replaces columns by others of the same name. Each new value depends on the old one alone."""

    @abstractmethod
    def converted(self) -> Sequence[str]:
        """The names of the columns."""

    @abstractmethod
    def convert(self, name: str, column: Column) -> Column:
        """The new column.

        Raises:
            UnfitError: the column is of another type, or has a value that cannot be converted.
        """

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

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
        import pyarrow as pa

        try:
            return self.convert(name, column)
        except UnfitError as error:
            raise UnfitError(f"column {name!r} {error}") from error
        except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise UnfitError(f"column {name!r} of type {type_name(column)} cannot be converted: {reason}") from error


def type_name(column: Column) -> str:
    """The type of a column, for errors."""
    if not isinstance(column, np.ndarray):
        return str(column.type)
    return str(column.dtype) + (f" and shape {column.shape[1:]}" if column.ndim > 1 else "")


def check_column_names(value: object) -> tuple[str, ...]:
    """The argument `columns`: a name, or a list of names."""
    return tuple(check_names("columns", [value] if isinstance(value, str) else value) or ())


def map_numbers(column: Column, function: Callable[[Array], Any]) -> Column:
    """`function` of the numbers of a column, as an array. Nulls stay null.

    Raises:
        UnfitError: the column has no numbers, or is one of arrays and has nulls.
    """
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        if column.dtype.kind not in "biuf":
            raise not_numbers(column)
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
        raise not_numbers(column)
    numbers, nulls = numbers_and_nulls(array)
    if nulls is None:
        return read_only(function(numbers))
    with np.errstate(all="ignore"):  # what stands in the place of nulls may be anything
        return cast("Column", pa.array(function(numbers), mask=nulls))


def not_numbers(column: Column) -> UnfitError:
    return UnfitError(f"is of type {type_name(column)}, and numbers are needed; `.cast` parses text that is numbers")


def whole_grid(column: Any) -> Array:
    """A column of arrays, which must have no nulls, as one array."""
    if column.null_count:
        raise UnfitError("has nulls in place of arrays; `.drop_null` leaves out these rows")
    return grid(column)


def _column_of_value(value: object, name: str) -> Column:
    """One value of a row that is a dict, as a column."""
    import pyarrow as pa

    if isinstance(value, np.ndarray) and value.ndim:
        return value[None]
    try:
        return cast("Column", pa.array([cast("Any", value)]))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(f"column {name!r}: {value!r:.80} cannot be converted: {error}") from error
