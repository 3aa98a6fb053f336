"""`zip`, `zip_longest` and `enumerate`: rows of several pipes, or their positions, side by side."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, overload

import numpy as np

from ..core.block import Block, zipped
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Amount, Columns, CursorOfInput, Input, Operator, Order, StageView, amount_of_inputs
from ..core.origins import Origins
from ..core.rows import BlockRows, Indices, index_array, index_list
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


@dataclass(frozen=True)
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

    def padding(self, count: int) -> list[object] | None:
        """The rows of an input that has ended; None if the others end with it."""
        return None

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return zipped([source.rows(indices, context) for source in stage.inputs])

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        tokens = cast("list[Json]", at.token or [None] * len(stage.inputs))
        yield from (pair for pair in builtins.zip(stage.inputs, tokens, strict=True) if pair[1] is not ENDED)

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        return amount_of_inputs(self, stage, at, context, at.skip)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        tokens = cast("list[Json]", at.token or [None] * len(stage.inputs))
        row = at.position
        inner = context.part()
        readers: list[tuple[Clock, Iterator[Block]] | None] = []
        for source, token in builtins.zip(stage.inputs, tokens, strict=True):
            own, clock = inner.with_own_clock()
            is_open = token is not ENDED
            readers.append((clock, source.blocks(Cursor.of(token).advance(at.skip), own)) if is_open else None)
        blocks: list[Block | None] = [None] * len(readers)
        with closing(inner.running):
            while True:
                for k, reader in builtins.enumerate(readers):
                    if reader is not None and blocks[k] is None:
                        clock, source_blocks = reader
                        blocks[k] = clock.next(source_blocks)
                        if blocks[k] is None:
                            if self.padding(0) is None:
                                return
                            readers[k] = None
                lengths = [len(block) for block in blocks if block is not None]
                if not lengths:
                    return
                count = min(lengths)
                parts = [None if block is None else block.slice(0, count) for block in blocks]
                blocks = [block.slice(count, len(block)) if block and len(block) > count else None for block in blocks]
                yield Block(
                    zipped([self.padding(count) or [] if part is None else part.rows for part in parts]),
                    Cursor([ENDED if part is None else part.at.plain for part in parts], 0, row),
                    Cursor([ENDED if part is None else part.end.plain for part in parts], 0, row + count),
                    Origins.zipped([part.origins for part in parts if part is not None]),
                )
                row += count


ENDED = False
"""In a token: the cursor of an input that has ended, which is not read again."""


@overload
def zip_longest(pipe: Pipe[T], a: Pipe[A], /, *, fill: None = None) -> Pipe[tuple[T | None, A | None]]: ...
@overload
def zip_longest(
    pipe: Pipe[T], a: Pipe[A], b: Pipe[B], /, *, fill: None = None
) -> Pipe[tuple[T | None, A | None, B | None]]: ...
@overload
def zip_longest(pipe: Pipe[T], a: Pipe[A], /, *, fill: C) -> Pipe[tuple[T | C, A | C]]: ...
@overload
def zip_longest(pipe: Pipe[T], a: Pipe[A], b: Pipe[B], /, *, fill: C) -> Pipe[tuple[T | C, A | C, B | C]]: ...
@overload
def zip_longest(pipe: Pipe[T], /, *others: Pipe[object], fill: object = None) -> Pipe[tuple[object, ...]]: ...
def zip_longest(pipe: Pipe[T], /, *others: Pipe[object], fill: object = None) -> Pipe[Any]:
    """Put row i of this pipe and row i of each of `others` side by side, until the longest of them ends.

        a b c   and   1 2   ->   zip_longest(): (a 1) (b 2) (c None)

    Element: a tuple with one item of each pipe. Order: the inputs'. Length: that of the longest input. Indexed if all
    inputs are. State: a position in each input that has not ended. Every shard reads streamed inputs from end to end,
    because their positions must agree; `explain()` says so.

    Args:
        others: the pipes of the other items of each tuple, in order.
        fill: the item for a pipe that has ended.

    Raises:
        ArgumentTypeError: one of `others` is not a pipe.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").zip_longest(fp.from_sequence([1, 2]), fill=0))
        [('a', 1), ('b', 2), ('c', 0)]
    """
    return pipe.then(ZipLongest(fill), *others)


@dataclass(frozen=True)
class ZipLongest(Zip):
    kind: ClassVar[str] = "zip_longest"

    fill: Any = None

    def length(self, stage: StageView) -> int | None:
        lengths = [source.length for source in stage.inputs]
        return None if None in lengths else max(length for length in lengths if length is not None)

    def padding(self, count: int) -> list[object]:
        return [self.fill] * count

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        return ((source, index, context) for source in stage.inputs if index < (source.length or 0))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        places = index_array(indices)
        columns: list[BlockRows] = []
        for source in stage.inputs:
            inside = np.flatnonzero(places < (source.length or 0))
            padded = self.padding(len(places))
            for place, row in builtins.zip(inside.tolist(), source.rows(places[inside], context), strict=True):
                padded[place] = row
            columns.append(padded)
        return zipped(columns)


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


@dataclass(frozen=True)
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
