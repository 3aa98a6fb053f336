"""`filter`: only the rows for which a predicate is true."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.checks import check_callable
from ..core.operator import StageView
from ..engine.apply import extend_until_error, map_until_error, stop_iteration_error
from ..formats.tables.expressions import is_expression
from ._filter_rows import ExpressionFilter, FilterResult, FilterRows
from ._push_down import with_later_filter

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from ..pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Filter(FilterRows):
    function: Callable[..., object]  # the `predicate`; the states of running jobs know the field by this name

    def __post_init__(self) -> None:
        check_callable("predicate", self.function)

    def select(self, stage: StageView, block: Block) -> FilterResult:
        if not isinstance(block.rows, list) or block.origins is not None:
            answers, error = map_until_error(self._test, block.rows, user_function=self.function)
            return FilterResult(*block.select(np.flatnonzero(np.array(answers, bool))), len(answers), error)
        rows = iter(block.rows)
        # `filter` takes a StopIteration of the predicate, or of the truth value of its answer, for the end of the rows.
        # At the true end `chain` has also taken the empty tuple.
        parts = iter((rows, ()))
        selected: list[object] = []
        error = extend_until_error(builtins.filter(self.function, chain.from_iterable(parts)), selected)
        if error is None and length_hint(parts):
            error = stop_iteration_error(self.function)
        tested = len(block) - length_hint(rows)
        return FilterResult(selected, None, tested - (error is not None), error)

    def _test(self, row: object) -> bool:
        return bool(self.function(row))


def filter(pipe: Pipe[T], /, predicate: Callable[[T], object] | pc.Expression) -> Pipe[T]:
    """Keep the rows for which `predicate(row)` is true, or for which an expression over columns is.

    Element and order are the input's; columns stay columns. Length: unknown; streamed. State: a position in the input.

    Args:
        predicate: a function that is called once for each row; its errors come with file, line and row (`RowError`). Or
            an expression of `pyarrow.compute` over the columns of a table, such as `pc.field("x") > 3`: it tests many
            rows at once, and makes no row a Python object. A row for which it is null is left out. Right behind Parquet
            files, or with only `select` and other such filters between, it leaves out row groups by their statistics.

    Raises:
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
        return with_later_filter(pipe, predicate).then(ExpressionFilter(predicate))
    return pipe.then(Filter(cast("Callable[[T], object]", predicate)))
