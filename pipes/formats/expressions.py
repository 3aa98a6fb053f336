"""Expressions of `pyarrow.compute` over columns: their text, the columns that they use, and their values."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_scalar, numpy_array
from ..core.cursor import Json
from ..core.lazy import pa
from ..errors import ArgumentError

# pyarrow's stubs do not say what an expression is, hence `Any`.


def is_expression(value: object) -> bool:
    """Whether `value` is an expression. This imports nothing, since a user who has one has imported pyarrow."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(value, compute.Expression)


def check_expression(argument: str, expression: Any) -> None:
    """Check that an expression names its columns."""
    if "FieldPath(" in str(expression):
        raise ArgumentError(
            f"`{argument}` must name its columns but got an expression with a column by number: {expression}"
        )


def expression_code(expression: Any) -> str:
    """The expression on one line, as Arrow writes it."""
    return " ".join(str(expression).split())


def expression_identity(expression: Any) -> Json:
    """What a state keeps of an expression: its text, and a digest if Arrow abbreviates values in the text."""
    text = expression_code(expression)
    if "..." not in text:
        return text
    return [text, hashlib.blake2b(pickle.dumps(expression, 4), digest_size=8).hexdigest()]


def used_columns(expression: Any, types: Mapping[str, pa.DataType], names: Sequence[str] | None = None) -> list[str]:
    """Those of `names`, by default of all columns, that an expression uses. It must fit the columns.

    Arrow does not tell them, so they are those without which the expression fails.
    """
    names = list(types) if names is None else names
    without = set(names)
    if not names or not expression_problem(expression, {n: kind for n, kind in types.items() if n not in without}):
        return []
    if len(names) == 1:
        return [*names]
    half = len(names) // 2
    return [*used_columns(expression, types, names[:half]), *used_columns(expression, types, names[half:])]


def filter_problem(expression: Any, types: Mapping[str, pa.DataType]) -> str | None:
    """Why an expression cannot select rows of columns of these types; None if it can."""
    problem = expression_problem(expression, types)
    if problem is not None:
        return problem
    kind = expression_type(expression, types)
    return None if pa.types.is_boolean(kind) else f"it gives {kind} and not true or false"


def matching_rows(expression: Any, columns: Mapping[str, Any], rows: int) -> npt.NDArray[np.bool_]:
    """Whether each of the rows matches; null is no match."""
    (matches,) = evaluate([expression], columns, rows)
    return cast("npt.NDArray[np.bool_]", numpy_array(matches.fill_null(arrow_scalar(False))))


def expression_problem(expression: Any, types: Mapping[str, pa.DataType]) -> str | None:
    """Why an expression has no values for columns of these types; None if it has."""
    try:
        expression_type(expression, types)
    except (pa.ArrowException, ValueError, NotImplementedError, TypeError, KeyError) as error:
        return " ".join(str(error).split(" in ")[0].split())
    return None


def expression_type(expression: Any, types: Mapping[str, pa.DataType]) -> Any:
    """The type of the values of an expression; one of Arrow's exceptions if it does not fit the columns."""
    # `pa.array([], type)` refuses unions, and tensors whose axes are permuted.
    (values,) = evaluate([expression], {name: pa.nulls(0, cast("Any", kind)) for name, kind in types.items()}, 0)
    return values.type


def evaluate(expressions: Sequence[Any], columns: Mapping[str, Any], rows: int) -> list[Any]:
    """The values of expressions over columns, an array each; `rows` counts them, as there may be no columns."""
    # Not `Table.filter`: it runs in threads, which may reorder rows.
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    table = pa.table(dict(columns) or {"": pa.nulls(rows)})
    source = Declaration("table_source", TableSourceNodeOptions(table))
    options = ProjectNodeOptions([*expressions], [str(place) for place in range(len(expressions))])
    projected = Declaration.from_sequence([source, Declaration("project", options)]).to_table(use_threads=False)
    return [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in projected.columns]
