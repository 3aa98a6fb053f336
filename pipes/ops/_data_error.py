"""`data_error`: the error of rows that do not fit, in place of a failure of a user's function."""

from __future__ import annotations

from ..core.code import step_code
from ..core.operator import Operator
from ..errors import DataError, RowError, UnfitError


def data_error(op: Operator, error: Exception, what: str = "on") -> Exception:
    """The `DataError` in place of `error`, a `RowError`, if the row was at fault; else `error` itself.

    Args:
        op: the operator that the error is about.
        error: what `stage.failed` returned.
        what: words that lead to the origin of the row.
    """
    if not isinstance(error, RowError) or not isinstance(error.__cause__, UnfitError):
        return error
    origin = f"\n  {what} {error.origin}" if error.origin else ""
    line = f"\n  at {error.where.file}:{error.where.line}" if error.where else ""
    unfit = DataError(f"`{step_code(op, source=False)}`: {error.__cause__}{origin}{line}")
    unfit.__cause__ = error.__cause__
    return unfit
