"""`filter`: only the rows for which a predicate is true."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ..core.block import Block
from ..core.checks import check_callable
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Operator, Order, StageView
from ..core.rows import BlockRows
from ..engine.apply import extend_until_error, map_until_error, stop_iteration_error
from ..errors import Origin

if TYPE_CHECKING:
    import pyarrow as pa

    from ..pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Filter(Operator):
    kind: ClassVar[str] = "filter"
    order: ClassVar[Order] = Order.ROW_LOCAL

    function: Callable[..., object]  # the `predicate`; the states of running jobs know the field by this name

    def __post_init__(self) -> None:
        check_callable("predicate", self.function)

    def schema(self, stage: StageView) -> pa.Schema | None:
        return stage.input.schema

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            rows, origins, count, error = self._select(block)
            start, end = block.at, block.end if count == len(block) else block.at.advance(count)
            first, row = row, row + len(rows)
            output = [Block(rows, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)]
            del block, rows  # only the consumer holds them now
            if row > first:
                yield output.pop()
            if error is not None:
                raise stage.failed(error, end, context)

    def _select(self, block: Block) -> tuple[BlockRows, list[Origin | None] | None, int, Exception | None]:
        """The rows that pass, their origins, how many rows were tested, and the error that ended the test."""
        if not isinstance(block.rows, list) or block.origins is not None:
            answers, error = map_until_error(self._test, block.rows, user_function=self.function)
            return *block.select(np.flatnonzero(np.array(answers, bool))), len(answers), error
        rows = iter(block.rows)
        # `filter` takes a StopIteration of the predicate, or of the truth value of its answer, for the end of the rows.
        # At the true end `chain` has also taken the empty tuple.
        parts = iter((rows, ()))
        selected: list[object] = []
        error = extend_until_error(builtins.filter(self.function, chain.from_iterable(parts)), selected)
        if error is None and length_hint(parts):
            error = stop_iteration_error(self.function)
        tested = len(block) - length_hint(rows)
        return selected, None, tested - (error is not None), error

    def _test(self, row: object) -> bool:
        return bool(self.function(row))


def filter(pipe: Pipe[T], /, predicate: Callable[[T], object]) -> Pipe[T]:
    """Keep the rows for which `predicate(row)` is true.

    Element and order are the input's; columns stay columns. Length: unknown; streamed. State: a position in the input.

    Args:
        predicate: called once for each row; its errors come with file, line and row (`RowError`).

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(6)).filter(lambda x: x % 2))
        [1, 3, 5]
    """
    return pipe.then(Filter(predicate))
