"""Evaluates expressions of `pyarrow.compute` on rows of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...core.operator import StageView
from ...core.rows import Rows, column_names, select_columns, take
from ...errors import UnfitError
from ...formats.tables.expressions import evaluate, expression_problem, used_columns
from .._column_arguments import existing_columns

if TYPE_CHECKING:
    import pyarrow as pa

Problem = Callable[[Any, Mapping[str, Any]], str | None]

_MISSING_FIELD = re.compile(r"No match for FieldRef.Name\((.*)\)")


def check_fit(
    expressions: Sequence[Any], schema: pa.Schema, problem_of: Problem = expression_problem
) -> dict[str, pa.DataType]:
    """The columns of `schema` by name.

    Args:
        expressions: over these columns.
        schema: names and types of the columns.
        problem_of: why an expression does not fit; None if it does.

    Raises:
        UnfitError: an expression does not fit.
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
    """The values of expressions for rows of a table, an Arrow array each. Columns that they do not use are not touched.

    Raises:
        UnfitError: an expression does not fit the columns, or has no value for one of the rows.
    """
    import pyarrow as pa

    def used() -> list[str]:
        types = check_fit(expressions, cast("Rows", take(rows, range(0))).arrow.schema, problem_of)
        return list({name: None for expression in expressions for name in used_columns(expression, types)})

    columns = existing_columns(stage.memo("columns", used), column_names(rows))
    batch = select_columns(rows, columns).arrow
    try:
        return evaluate(expressions, dict(zip(columns, batch.columns, strict=True)), len(rows))
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError) as error:
        raise UnfitError(" ".join(str(error).split())) from error
