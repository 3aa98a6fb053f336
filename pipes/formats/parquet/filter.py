"""Filters of Parquet files: expressions of `pyarrow.compute`, of which nobody can see the inside."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ...core.cursor import Json
from ...errors import ArgumentError, ArgumentTypeError, DataError, with_call_site
from ..tables.columns import listed

if TYPE_CHECKING:
    import pyarrow as pa


def check_filter(value: object) -> None:
    """`filter=` must be None or an expression over names."""
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
        raise ArgumentError(with_call_site(f"`filter` must name its columns, and one stands there by number: {value}"))


def identified(expression: Any) -> Json:
    """What a state holds of a filter: its text, and where Arrow leaves values out of that, a digest."""
    if expression is None:
        return None
    text = " ".join(str(expression).split())
    if "..." not in text:
        return text
    return [text, hashlib.blake2b(pickle.dumps(expression, 4), digest_size=8).hexdigest()]


def needed_by(
    expression: Any, chosen: Mapping[str, pa.DataType], whole: Mapping[str, pa.DataType], source: str
) -> tuple[str, ...]:
    """The columns that `expression` is about.

    Args:
        expression: the filter.
        chosen: the columns of the rows; of one with structs, perhaps only a part.
        whole: all columns there are.
        source: the file that has them.

    Raises:
        DataError: it does not fit the columns.
    """
    problem = _problem(expression, whole)
    if problem is not None:
        raise DataError(f"`filter` does not fit the columns of {source}: {problem}; there are {listed([*whole])}")
    both = {**whole, **chosen}
    if (problem := _problem(expression, both)) is not None:
        raise DataError(
            f"`filter` looks at a part of a column that `columns` leaves out; name the whole one: {problem}"
        )
    return tuple(_needed(expression, both, list(both)))


def _needed(expression: Any, types: Mapping[str, pa.DataType], names: list[str]) -> list[str]:
    """Those of `names` that `expression` is about. Arrow does not say: they are those without which it fails."""
    without = set(names)
    if not _problem(expression, {name: kind for name, kind in types.items() if name not in without}):
        return []
    if len(names) == 1:
        return names
    half = len(names) // 2
    return [*_needed(expression, types, names[:half]), *_needed(expression, types, names[half:])]


def _problem(expression: Any, types: Mapping[str, pa.DataType]) -> str | None:
    """Why `expression` cannot filter a table of such columns."""
    import pyarrow as pa

    try:
        made = _evaluated(expression, pa.schema(list(types.items())).empty_table())
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError, KeyError) as error:
        return " ".join(str(error).split(" in ")[0].split())
    return None if pa.types.is_boolean(made.type) else f"it gives {made.type} and not true or false"


def mask(expression: Any, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """For each row, whether it matches; null is no match."""
    import pyarrow as pa

    made = _evaluated(expression, pa.table(dict(columns)))
    return cast("npt.NDArray[np.bool_]", made.fill_null(False).to_numpy())


def _evaluated(expression: Any, table: pa.Table) -> Any:
    # Not `Table.filter`: that runs in threads, which may put rows into another order.
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    source = Declaration("table_source", TableSourceNodeOptions(table))
    project = Declaration("project", ProjectNodeOptions([expression], ["match"]))
    return Declaration.from_sequence([source, project]).to_table(use_threads=False).column(0)
