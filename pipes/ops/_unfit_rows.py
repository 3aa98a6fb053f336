"""Rows that do not fit an operator: the first of them is found, and the error names it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from ..core.code import step_code
from ..core.operator import Operator, StageView
from ..core.rows import Rows
from ..errors import PlanError, UnfitError, with_call_site

T = TypeVar("T")


def convert_until_error(convert: Callable[[Rows], T], rows: Rows) -> tuple[T | None, Exception | None]:
    """What `convert` makes of the rows before the first that fails, and the error of that row.

    None if the first row fails. `convert` treats each row by itself.
    """
    try:
        return convert(rows), None
    except Exception as error:
        if not rows:
            return None, error
        failing = bisect_left(range(len(rows)), True, key=lambda k: _error(convert, rows[: k + 1]) is not None)
        if failing == len(rows):  # it does not fail again
            return None, error
        before = convert(rows[:failing]) if failing else None
        return before, _error(convert, rows[failing : failing + 1]) or error


def _error(convert: Callable[[Rows], object], rows: Rows) -> Exception | None:
    try:
        convert(rows)
    except Exception as error:
        return error
    return None


def plan_error(op: Operator, stage: StageView, error: UnfitError) -> PlanError:
    """The error if `op` does not fit the columns of its input, which are known without a run."""
    return PlanError(with_call_site(f"`{step_code(op, source=False)}`: {error}", stage.call_site))


def as_mapping(row: object) -> Mapping[str, object]:
    """`row`, which must be a dict.

    Raises:
        UnfitError: it is something else.
    """
    if isinstance(row, Mapping):
        return cast("Mapping[str, object]", row)
    repair = "put this before `.batch`" if isinstance(row, Rows) else "make dicts with a `.map`"
    kind = type(row).__name__
    raise UnfitError(f"rows must be dicts, whose keys name the columns, but one is of type {kind}; {repair}")
