"""Filters of Parquet files: opaque expressions of `pyarrow.compute`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.cursor import Json
from ...errors import ArgumentTypeError, DataError, with_call_site
from ..tables.arrow import arrow_errors
from ..tables.columns import format_names
from ..tables.expressions import check_expression, expression_identity, filter_problem, used_columns

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FLOAT_COLUMNS = 4
"""Of so many float columns in a filter `nan_cases` are tried: 16."""


def check_filter(value: object) -> None:
    """Check that `filter=` is None or an expression over names."""
    if value is None:
        return
    import pyarrow.compute as pc

    if not isinstance(value, pc.Expression):
        raise ArgumentTypeError(
            with_call_site(
                "`filter` must be an expression of `pyarrow.compute`, such as `pc.field('x') > 3`, but got: "
                f"{value!r}; a function of rows is for `.filter`"
            )
        )
    check_expression("filter", value)


def filter_identity(expression: Any) -> Json:
    """What a state keeps of a filter."""
    return None if expression is None else expression_identity(expression)


def constant_values(values: Mapping[str, Any]) -> Any:
    """The expression that is true of all rows of a file in which columns have these values."""
    import pyarrow.compute as pc

    expression: Any = pc.scalar(True)
    for name, value in values.items():
        expression &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
    return expression


class ColumnBounds(NamedTuple):
    """Between which values those of a column of a file lie. NaN may come on top.

    Attributes:
        low, high: scalars of the column's type; None if all values are null.
        nulls: whether there may be nulls.
    """

    low: Any
    high: Any
    nulls: bool

    def expression(self, name: str) -> Any:
        """The expression that is true of all rows."""
        import pyarrow.compute as pc

        column: Any = pc.field(name)
        if self.low is None:
            return column.is_null()
        within = column >= self.low, column <= self.high
        # Arrow understands a bound that may be null, but not two of them.
        low, high = (bound | column.is_null() if self.nulls else bound for bound in within)
        return low & high


def may_match(
    expression: Any,
    types: Mapping[str, pa.DataType],
    values: Mapping[str, Any],
    bounds: Mapping[str, ColumnBounds] = MappingProxyType({}),
) -> bool:
    """Whether rows of a file may match a filter, as far as is known of some columns, without a look at the file.

    Args:
        expression: the filter.
        types: of the columns in it.
        values: of columns that have one value in all rows.
        bounds: of other columns.
    """
    import pyarrow as pa
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    form: Any = ParquetFileFormat()
    constant = constant_values({name: value for name, value in values.items() if name in types})
    floats = [name for name in bounds if pa.types.is_floating(types[name])]
    if len(floats) > MAX_FLOAT_COLUMNS:
        bounds = {name: bound for name, bound in bounds.items() if name not in floats}
        floats = []
    fragments: list[Any] = []
    for nan_columns in nan_cases(floats):
        case = constant
        for name, bound in bounds.items():
            case &= is_nan(name, types[name]) if name in nan_columns else bound.expression(name)
        fragments.append(form.make_fragment(pa.BufferReader(b""), partition_expression=case))
    dataset: Any = FileSystemDataset(fragments, pa.schema([*types.items()]), form)
    try:
        return any(True for _ in dataset.get_fragments(filter=expression))
    except arrow_errors():  # reading the rows raises the error
        return True


def nan_cases(floats: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The sets of float columns that may be NaN at the same time. Arrow takes NaN to lie within bounds; it does not."""
    return chain.from_iterable(combinations(floats, count) for count in range(len(floats) + 1))


def is_nan(name: str, kind: pa.DataType) -> Any:
    """The expression by which Arrow takes a column of floats for NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.field(name) == pa.scalar(float("nan"), kind)


def columns_in_filter(
    expression: Any, selected: Mapping[str, pa.DataType], whole: Mapping[str, pa.DataType], source: str
) -> tuple[str, ...]:
    """Find the columns that a filter uses.

    Args:
        expression: the filter.
        selected: the columns of the rows; perhaps only a part of a column of structs.
        whole: all columns.
        source: the file that has them.

    Raises:
        DataError: the filter does not fit the columns.
    """
    problem = filter_problem(expression, whole)
    if problem is not None:
        raise DataError(f"`filter` does not fit the columns of {source}: {problem}; there are {format_names([*whole])}")
    types = {**whole, **selected}
    if (problem := filter_problem(expression, types)) is not None:
        raise DataError(
            f"`filter` needs a part of a column that `columns` leaves out; name the whole column there: {problem}"
        )
    return tuple(used_columns(expression, types))
