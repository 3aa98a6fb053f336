"""`zip`: rows of several pipes side by side."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, overload

from ..core.block import Block
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Columns, Operator, Order
from ..core.rows import BlockRows, Indices

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@dataclass(frozen=True)
class Zip(Operator):
    kind: ClassVar[str] = "zip"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    def length(self, stage: Stage) -> int | None:
        lengths = [source.length for source in stage.inputs]
        known = [n for n in lengths if n is not None]
        return min(known) if len(known) == len(lengths) or 0 in known else None

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        return list(builtins.zip(*(source.rows(indices, context) for source in stage.inputs), strict=True))

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        tokens: Sequence[object] = at.token or [None] * len(stage.inputs)  # type: ignore[assignment]
        row = at.position
        sources = [
            source.blocks(Cursor.of(token).advance(at.skip), context)  # type: ignore[arg-type]
            for source, token in builtins.zip(stage.inputs, tokens, strict=True)
        ]
        held: list[Block | None] = [None] * len(sources)
        while True:
            ready: list[Block] = []
            for k, source in builtins.enumerate(sources):
                block = held[k] or next(source, None)
                if block is None:
                    return
                held[k] = block
                ready.append(block)
            count = min(len(block) for block in ready)
            fronts = [block.slice(0, count) for block in ready]
            held = [b.slice(count, len(b)) if len(b) > count else None for b in ready]
            yield Block(
                list(builtins.zip(*(front.rows for front in fronts), strict=True)),
                Cursor([front.at.plain for front in fronts], 0, row),
                Cursor([front.end.plain for front in fronts], 0, row + count),
                fronts[0].origins,
            )
            row += count


@overload
def zip(pipe: Pipe[T], a: Pipe[A], /) -> Pipe[tuple[T, A]]: ...
@overload
def zip(pipe: Pipe[T], a: Pipe[A], b: Pipe[B], /) -> Pipe[tuple[T, A, B]]: ...
@overload
def zip(pipe: Pipe[T], a: Pipe[A], b: Pipe[B], c: Pipe[C], /) -> Pipe[tuple[T, A, B, C]]: ...
@overload
def zip(pipe: Pipe[T], a: Pipe[A], b: Pipe[B], c: Pipe[C], /, *more: Pipe[object]) -> Pipe[tuple[object, ...]]: ...
def zip(pipe: Pipe[T], /, *others: Pipe[object]) -> Pipe[tuple[object, ...]]:
    """Put row i of this pipe and row i of each of `others` side by side.

        a b c   and   1 2   ->   (a 1) (b 2)

    Element: a tuple, one item for each pipe. Ends with the shortest. Indexed where all inputs are. State: a position in
    each. Streamed inputs are read whole by every shard, for their positions must agree: the plan says so.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").zip(fp.from_sequence([1, 2])))
        [('a', 1), ('b', 2)]
    """
    return pipe.then(Zip(), *others)
