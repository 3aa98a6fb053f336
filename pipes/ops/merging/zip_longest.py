"""`zip_longest`: rows of several pipes side by side, until the longest ends."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, overload

import numpy as np

from ...core.block import Block, zipped_origins
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Columns, Input, Operator, Order, StageView
from ...core.rows import BlockRows, Indices, index_array
from ...core.skipped_rows import zipped

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

ENDED = False
"""Stands in a token for the cursor of an input that has ended, which is then not read again."""


@dataclass(frozen=True)
class ZipLongest(Operator):
    """A token is a list with the cursor of each input."""

    kind: ClassVar[str] = "zip_longest"
    order: ClassVar[Order] = Order.GLOBAL
    columns: ClassVar[Columns] = Columns.LOSES
    seeks: ClassVar[bool] = True

    fill: Any = None

    def moves_skipped(self) -> bool:
        return True

    def length(self, stage: StageView) -> int | None:
        lengths = [source.length for source in stage.inputs]
        return None if None in lengths else max(length for length in lengths if length is not None)

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        return ((source, index, context) for source in stage.inputs if index < (source.length or 0))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        columns = [self._padded(source, index_array(indices), context) for source in stage.inputs]
        return zipped(columns)

    def _padded(self, source: Input, indices: Indices, context: Context) -> list[object]:
        """The rows of an input at `indices`, with the padding behind its end."""
        inside = np.flatnonzero(index_array(indices) < (source.length or 0))
        padded: list[object] = [self.fill] * len(indices)
        rows = source.rows(index_array(indices)[inside], context)
        for place, row in builtins.zip(inside.tolist(), rows, strict=True):
            padded[place] = row
        return padded

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        tokens = cast("list[Json]", at.token or [None] * len(stage.inputs))
        yield from (pair for pair in builtins.zip(stage.inputs, tokens, strict=True) if pair[1] is not ENDED)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        tokens = cast("list[Json]", at.token or [None] * len(stage.inputs))
        row = at.position
        sources: list[Iterator[Block] | None] = [
            None if token is ENDED else source.blocks(Cursor.of(token).advance(at.skip), context)
            for source, token in builtins.zip(stage.inputs, tokens, strict=True)
        ]
        blocks: list[Block | None] = [None] * len(sources)
        while True:
            for k, source in enumerate(sources):
                if source is not None and blocks[k] is None:
                    blocks[k] = next(source, None)
                    if blocks[k] is None:
                        sources[k] = None
            lengths = [len(block) for block in blocks if block is not None]
            if not lengths:
                return
            count = min(lengths)
            parts = [None if block is None else block.slice(0, count) for block in blocks]
            blocks = [
                block.slice(count, len(block)) if block is not None and len(block) > count else None for block in blocks
            ]
            columns = [[self.fill] * count if part is None else part.rows for part in parts]
            yield Block(
                zipped(columns),
                Cursor([ENDED if part is None else part.at.plain for part in parts], 0, row),
                Cursor([ENDED if part is None else part.end.plain for part in parts], 0, row + count),
                zipped_origins([part for part in parts if part is not None]),
            )
            row += count


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

        a b c   and   1 2   ->   (a 1) (b 2) (c None)

    Element: a tuple with one item of each pipe. Order: the inputs'. Length: that of the longest input. Indexed if all
    inputs are. State: a position in each input that has not ended. Every shard reads streamed inputs from end to end,
    because their positions must agree; `explain()` says so.

    Args:
        fill: the item in place of a row of a pipe that has ended.

    Raises:
        ArgumentTypeError: one of `others` is not a pipe.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").zip_longest(fp.from_sequence([1, 2]), fill=0))
        [('a', 1), ('b', 2), ('c', 0)]
    """
    return pipe.then(ZipLongest(fill), *others)
