"""`concat`: one pipe after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import START, Cursor
from ..core.gather import gather
from ..core.operator import Operator, Order
from ..core.rows import BlockRows, Indices, signature
from ..errors import Origin

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Concat(Operator):
    kind: ClassVar[str] = "concat"
    order: ClassVar[Order] = Order.ROW_LOCAL

    def length(self, stage: Stage) -> int | None:
        lengths = [source.length for source in stage.inputs]
        return None if None in lengths else sum(n for n in lengths if n is not None)

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        bounds = self._bounds(stage)
        k = int(np.searchsorted(bounds, index, "right")) - 1
        return stage.inputs[k].origin(index - int(bounds[k]), context)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        uniform = self._uniform(stage, context)

        def part(k: int, places: Indices) -> BlockRows:
            rows = stage.inputs[k].rows(places, context)
            return rows if uniform else list(rows)

        return gather(indices, self._bounds(stage), part)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        first, source = at.numbered()
        row = at.row
        for k in range(first, len(stage.inputs)):
            for block in stage.inputs[k].blocks(source, context):
                here = Cursor([k, block.at.plain], 0, row)
                row += len(block)
                yield Block(block.rows, here, Cursor([k, block.end.plain], 0, row), block.origins)
            source = START

    def _uniform(self, stage: Stage, context: Context) -> bool:
        # Whether rows are held as columns must not depend on where a block ends: all of them, or none.
        kinds = (signature(source.rows(range(0), context)) for source in stage.inputs)
        return stage.memo("uniform", lambda: len(set(kinds)) == 1)

    def _bounds(self, stage: Stage) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        lengths = [source.length or 0 for source in stage.inputs]
        return stage.memo("bounds", lambda: np.cumsum([0, *lengths], dtype=np.int64))


def concat(pipe: Pipe[T], /, *others: Pipe[U]) -> Pipe[T | U]:
    """Give the rows of this pipe, then those of each of `others`.

        a b   +   c   ->   a b c

    Element: the inputs'. Length is the sum of theirs; indexed where all are. State: the number of the pipe and the
    position in it. Each input is dealt to shards by itself.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("ab").concat(fp.from_sequence("c")))
        ['a', 'b', 'c']
    """
    return pipe.then(Concat(), *others)
