"""`zip`: rows of several pipes side by side."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast, overload

from ...core.block import Block, zipped_origins
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Columns, Input, Operator, Order, StageView
from ...core.rows import BlockRows, Indices
from ...core.skipped_rows import zipped

if TYPE_CHECKING:
    from ...pipe import Pipe

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

    def moves_skipped(self) -> bool:
        return True

    def length(self, stage: StageView) -> int | None:
        lengths = [source.length for source in stage.inputs]
        known = [length for length in lengths if length is not None]
        return min(known) if len(known) == len(lengths) or 0 in known else None

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return zipped([source.rows(indices, context) for source in stage.inputs])

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield from builtins.zip(stage.inputs, cast("list[Json]", at.token or [None] * len(stage.inputs)), strict=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        tokens: Sequence[object] = at.token or [None] * len(stage.inputs)  # type: ignore[assignment]
        row = at.position
        sources = [
            source.blocks(Cursor.of(token).advance(at.skip), context)  # type: ignore[arg-type]
            for source, token in builtins.zip(stage.inputs, tokens, strict=True)
        ]
        rests: list[Block | None] = [None] * len(sources)
        while True:
            blocks: list[Block] = []
            for source, rest in builtins.zip(sources, rests, strict=True):
                block = rest or next(source, None)
                if block is None:
                    return
                blocks.append(block)
            count = min(map(len, blocks))
            rests = [block.slice(count, len(block)) if len(block) > count else None for block in blocks]
            blocks = [block.slice(0, count) for block in blocks]
            yield Block(
                zipped([block.rows for block in blocks]),
                Cursor([block.at.plain for block in blocks], 0, row),
                Cursor([block.end.plain for block in blocks], 0, row + count),
                zipped_origins(blocks),
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

    Element: a tuple with one item of each pipe. Order: the inputs'. Length: that of the shortest input. Indexed if all
    inputs are. State: a position in each input. Every shard reads streamed inputs from end to end, because their
    positions must agree; `explain()` says so.

    Raises:
        ArgumentTypeError: one of `others` is not a pipe.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").zip(fp.from_sequence([1, 2])))
        [('a', 1), ('b', 2)]
    """
    return pipe.then(Zip(), *others)
