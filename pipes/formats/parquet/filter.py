"""Filters of Parquet files: opaque expressions of `pyarrow.compute`."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ...core.cursor import Json
from ...errors import ArgumentError, ArgumentTypeError, DataError, with_call_site
from ..tables.columns import format_names

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
    if "FieldPath(" in str(value):
        raise ArgumentError(
            with_call_site(f"`filter` must name its columns but got an expression with a column by number: {value}")
        )


def filter_identity(expression: Any) -> Json:
    """What a state keeps of a filter: its text, and a digest if Arrow abbreviates values in the text."""
    if expression is None:
        return None
    text = " ".join(str(expression).split())
    if "..." not in text:
        return text
    return [text, hashlib.blake2b(pickle.dumps(expression, 4), digest_size=8).hexdigest()]


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
    problem = _problem(expression, whole)
    if problem is not None:
        raise DataError(f"`filter` does not fit the columns of {source}: {problem}; there are {format_names([*whole])}")
    types = {**whole, **selected}
    if (problem := _problem(expression, types)) is not None:
        raise DataError(
            f"`filter` needs a part of a column that `columns` leaves out; name the whole column there: {problem}"
        )
    return tuple(_required(expression, types, list(types)))


def _required(expression: Any, types: Mapping[str, pa.DataType], names: list[str]) -> list[str]:
    """Those of `names` that `expression` uses. Arrow does not tell them: they are those without which it fails."""
    without = set(names)
    if not _problem(expression, {name: kind for name, kind in types.items() if name not in without}):
        return []
    if len(names) == 1:
        return names
    half = len(names) // 2
    return [*_required(expression, types, names[:half]), *_required(expression, types, names[half:])]


def _problem(expression: Any, types: Mapping[str, pa.DataType]) -> str | None:
    """Why `expression` cannot filter a table of such columns; None if it can."""
    import pyarrow as pa

    try:
        matches = _evaluate(expression, pa.schema(list(types.items())).empty_table())
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError, KeyError) as error:
        return " ".join(str(error).split(" in ")[0].split())
    return None if pa.types.is_boolean(matches.type) else f"it gives {matches.type} and not true or false"


def matching_rows(expression: Any, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Whether each row matches; null is no match."""
    import pyarrow as pa

    matches = _evaluate(expression, pa.table(dict(columns)))
    return cast("npt.NDArray[np.bool_]", matches.fill_null(False).to_numpy())


def _evaluate(expression: Any, table: pa.Table) -> Any:
    # Not `Table.filter`: it runs in threads, which may reorder rows.
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    source = Declaration("table_source", TableSourceNodeOptions(table))
    project = Declaration("project", ProjectNodeOptions([expression], ["match"]))
    return Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0)
