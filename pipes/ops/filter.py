"""`filter`: only the rows for which a predicate is true."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ..core.block import Block
from ..core.checks import check_callable
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Operator, Order
from ..core.rows import BlockRows
from ..engine.apply import extend_until_error, items_left, map_until_error, stop_iteration_error
from ..errors import Origin

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Filter(Operator):
    kind: ClassVar[str] = "filter"
    order: ClassVar[Order] = Order.ROW_LOCAL

    function: Callable[..., object]  # the `predicate`; the states of running jobs know the field by this name

    def __post_init__(self) -> None:
        check_callable("predicate", self.function)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        row = at.row
        for block in stage.input.blocks(Cursor.of(at.token), context):
            kept, origins, done, error = self._keep(block)
            here, after = block.at, block.end if done == len(block) else block.at.advance(done)
            start, row = row, row + len(kept)
            made = [Block(kept, Cursor(here.plain, 0, start), Cursor(after.plain, 0, row), origins)]
            del block, kept  # handed on
            if row > start:
                yield made.pop()
            if error is not None:
                raise stage.failed(error, after, context)

    def _keep(self, block: Block) -> tuple[BlockRows, list[Origin | None] | None, int, Exception | None]:
        """The rows kept, their origins, how many rows were asked about, and the failure that ended it."""
        if isinstance(block.rows, list) and block.origins is None:
            kept: list[object] = []
            # `filter` takes a StopIteration of the function for the end of the rows; the last row, behind which there
            # is nothing to see that by, is asked about by itself.
            rows = iter(block.rows)
            error = extend_until_error(builtins.filter(self.function, islice(rows, len(block) - 1)), kept)
            left = items_left(rows)
            if error is None and left > 1:
                error = stop_iteration_error(self.function)
            if error is not None:
                return kept, None, len(block) - left - 1, error
            said, error = map_until_error(self.function, block.rows[-1:])
            kept.extend(row for row, agreed in zip(block.rows[-1:], said, strict=False) if agreed)
            return kept, None, len(block) - (error is not None), error
        said, error = map_until_error(lambda row: bool(self.function(row)), block.rows)
        return *block.kept(np.flatnonzero(np.array(said, bool))), len(said), error


def filter(pipe: Pipe[T], /, predicate: Callable[[T], object]) -> Pipe[T]:
    """Keep the rows for which `predicate(row)` is true.

    Element: the input's; columns stay columns. Order is the input's, the length is unknown, streamed. State: a position
    in the input.

    Args:
        predicate: called once for each row; its errors come with file, line and row (`RowError`).

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(range(6)).filter(lambda x: x % 2))
        [1, 3, 5]
    """
    return pipe.then(Filter(predicate))
