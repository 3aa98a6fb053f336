"""Filters of Parquet files: opaque expressions of `pyarrow.compute`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...core.cursor import Json
from ...errors import ArgumentTypeError, DataError, with_call_site
from ..tables.arrow import arrow_errors
from ..tables.columns import format_names
from ..tables.expressions import check_expression, expression_identity, filter_problem, used_columns

if TYPE_CHECKING:
    import pyarrow as pa


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


def may_match(expression: Any, types: Mapping[str, pa.DataType], values: Mapping[str, Any]) -> bool:
    """Whether rows of a file may match a filter, as far as the values of some columns tell, without a look at the file.

    Args:
        expression: the filter.
        types: of the columns in it.
        values: of columns that have one value in all rows.
    """
    import pyarrow as pa
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat

    form: Any = ParquetFileFormat()
    constant = constant_values({name: value for name, value in values.items() if name in types})
    fragment = form.make_fragment(pa.BufferReader(b""), partition_expression=constant)
    dataset: Any = FileSystemDataset([fragment], pa.schema([*types.items()]), form)
    try:
        return any(True for _ in dataset.get_fragments(filter=expression))
    except arrow_errors():  # reading the rows raises the error
        return True


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
