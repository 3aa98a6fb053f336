"""`zip` and `enumerate`: rows of several pipes, or their positions, side by side."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast, overload

from ..core.block import Block, zipped
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Amount, Columns, CursorOfInput, Input, Operator, Order, StageView, amount_of_inputs
from ..core.origins import Origins
from ..core.rows import BlockRows, Indices, index_list
from ..core.times import Clock

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


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

        a b c   and   1 2   ->   zip(): (a 1) (b 2)

    Element: a tuple with one item of each pipe. Order: the inputs'. Length: that of the shortest input. Indexed if all
    inputs are. State: a position in each input. Every shard reads streamed inputs from end to end, because their
    positions must agree; `explain()` says so.

    Args:
        others: the pipes of the other items of each tuple, in order.

    Raises:
        ArgumentTypeError: one of `others` is not a pipe.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").zip(fp.from_sequence([1, 2])))
        [('a', 1), ('b', 2)]
    """
    return pipe.then(Zip(), *others)


@dataclass(frozen=True, eq=False, repr=False)
class Zip(Operator):
    """A token is a list with the cursor of each input."""

    kind: ClassVar[str] = "zip"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True
    moves_skipped: ClassVar[bool] = True

    def length(self, stage: StageView) -> int | None:
        lengths = [source.length for source in stage.inputs]
        numbers = [length for length in lengths if length is not None]
        return min(numbers) if len(numbers) == len(lengths) or 0 in numbers else None

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return zipped([source.rows(indices, context) for source in stage.inputs])

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        yield from builtins.zip(stage.inputs, cast("list[Json]", at.token or [None] * len(stage.inputs)), strict=True)

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context, at.skip)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        tokens = cast("list[Json]", at.token or [None] * len(stage.inputs))
        row = at.position
        inner = context.part()
        readers: list[tuple[Clock, Iterator[Block]]] = []
        for source, token in builtins.zip(stage.inputs, tokens, strict=True):
            own, clock = inner.with_own_clock()
            readers.append((clock, source.blocks(Cursor.of(token).advance(at.skip), own)))
        blocks: list[Block | None] = [None] * len(readers)
        with closing(inner.running):
            while True:
                for k, (clock, source_blocks) in builtins.enumerate(readers):
                    blocks[k] = blocks[k] or clock.next(source_blocks)
                    if blocks[k] is None:
                        return
                whole = cast("list[Block]", blocks)
                count = min(map(len, whole))
                parts = [block.slice(0, count) for block in whole]
                blocks = [block.slice(count, len(block)) if len(block) > count else None for block in whole]
                yield Block(
                    zipped([part.rows for part in parts]),
                    Cursor([part.at.plain for part in parts], 0, row),
                    Cursor([part.end.plain for part in parts], 0, row + count),
                    Origins.zipped([part.origins for part in parts]),
                )
                row += count


def enumerate(pipe: Pipe[T], /, start: int = 0) -> Pipe[tuple[int, T]]:
    """Pair each row with its position among all rows of the pipe.

        a b c   ->   enumerate(): (0 a) (1 b) (2 c)

    Element: a tuple `(position, row)`. Order and length are the input's. Indexed if the input is. State: a position.

    Args:
        start: the position that the first row gets.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("ab").enumerate())
        [(0, 'a'), (1, 'b')]
    """
    return pipe.then(Enumerate(start))


@dataclass(frozen=True, eq=False, repr=False)
class Enumerate(CursorOfInput):
    kind: ClassVar[str] = "enumerate"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    start: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", check_int("start", self.start, least=-(2**63)))

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        positions = index_list(indices)
        rows = stage.input.rows(indices, context)
        return [(self.start + position, row) for position, row in builtins.zip(positions, rows, strict=True)]

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        for block in stage.input.blocks(at, context):
            yield block.with_rows(list(builtins.enumerate(block.rows, self.start + block.at.position)))
