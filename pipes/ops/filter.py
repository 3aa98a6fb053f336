"""`filter`: only the rows for which a predicate is true."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.checks import check_callable
from ..core.context import Context
from ..core.lazy import pc
from ..core.operator import StageView
from ..core.skips import OnError, Retry, check_on_error, check_retry
from ..engine.calls import extend_until_error, map_until_error, stop_iteration_error
from ..engine.retrying import retrying
from ..errors import ArgumentError
from ..formats.expressions import is_expression
from ._filter_rows import ExpressionFilter, FilterResult, FilterRows, told_parquet
from .select import Drop, Select

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")


def filter(
    pipe: Pipe[T],
    /,
    predicate: Callable[[T], object] | pc.Expression,
    *,
    on_error: OnError | None = None,
    retry: int | Retry = 0,
) -> Pipe[T]:
    """Keep the rows for which `predicate(row)` is true, or for which an expression over columns is.

        a B c D   ->   filter(str.isupper): B D

    Element and order are the input's; columns stay columns. Length: unknown; streamed. State: a position in the input.

    Args:
        predicate: a function that is called once for each row; its errors come with file, line and row (`RowError`). Or
            an expression of `pyarrow.compute` over the columns of a table, such as `pc.field("x") > 3`: it tests many
            rows at once, and makes no row a Python object. A row for which it is null is left out. Right after Parquet
            files, or with only `select` and other such filters between, it leaves out row groups by their statistics.
        on_error, retry: what happens to a row on which `predicate` fails; see `map`. An expression is not tried again.

    Raises:
        ArgumentError: `retry` is given for an expression.
        PlanError: the expression does not fit the columns; the error names a similar one.
        DataError: the same, if only a run can tell the columns; or rows are not those of a table.

    Example:
        >>> import feedpipe as fp, pyarrow as pa, pyarrow.compute as pc
        >>> list(fp.from_sequence(range(6)).filter(lambda x: x % 2))
        [1, 3, 5]
        >>> table = pa.table({"x": [1, 2, None], "y": ["a", "b", "c"]})
        >>> list(fp.from_table(table).filter((pc.field("x") > 1) | (pc.field("y") == "c")))
        [{'x': 2, 'y': 'b'}, {'x': None, 'y': 'c'}]
    """
    if is_expression(predicate):
        if retry:
            raise ArgumentError("`retry` needs a function, because an expression fails again each time")
        # The operators between keep the names of columns and treat each row by itself: the same rows pass the filter.
        pipe = told_parquet(
            pipe,
            lambda files: files.with_later_filter(predicate),
            lambda op: isinstance(op, (ExpressionFilter, Select, Drop)),
        )
        return pipe.then(ExpressionFilter(predicate, on_error=on_error))
    return pipe.then(Filter(cast("Callable[[T], object]", predicate), on_error=on_error, retry=retry))


@dataclass(frozen=True, eq=False, repr=False)
class Filter(FilterRows):
    function: Callable[..., object]  # the `predicate`; the states of running jobs know the field by this name
    on_error: OnError | None = field(default=None, kw_only=True, compare=False)
    retry: int | Retry = field(default=0, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_retry(self.retry)
        check_callable("predicate", self.function)

    def select(self, stage: StageView, block: Block, context: Context) -> FilterResult:
        predicate = retrying(self.function, self.retry, stage.name, context)
        if not isinstance(block.rows, list) or block.origins is not None:
            answers, error = map_until_error(predicate, block.rows, user_function=self.function)
            passes, failure = map_until_error(bool, answers, user_function=self.function)
            return FilterResult(*block.select(np.flatnonzero(passes)), len(passes), failure or error)
        rows = iter(block.rows)
        # `filter` takes a StopIteration of the predicate, or of the truth value of its answer, for the end of the rows.
        # At the true end `chain` has also taken the empty tuple.
        parts = iter((rows, ()))
        selected: list[object] = []
        error = extend_until_error(builtins.filter(predicate, chain.from_iterable(parts)), selected)
        if error is None and length_hint(parts):
            error = stop_iteration_error(self.function)
        tested = len(block) - length_hint(rows)
        return FilterResult(selected, None, tested - (error is not None), error)
