"""`take_while` and `skip_while`: the rows before, or from, the first for which a predicate is false."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from ...core.block import Block
from ...core.checks import check_callable
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Input, Order, StageView
from ...core.rows import BlockRows
from .._same_rows import SameRows

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class _UntilFalse(SameRows):
    """The base. A token is [cursor in the input, whether the predicate was false before it]."""

    order: ClassVar[Order] = Order.GLOBAL

    predicate: Callable[..., object]

    def __post_init__(self) -> None:
        check_callable("predicate", self.predicate)

    def count_true(self, rows: BlockRows) -> tuple[int, Exception | None]:
        """The number of rows before the first for which the predicate is false or fails, and that failure."""
        count = 0
        try:
            for row in rows:
                if not self.predicate(row):
                    break
                count += 1
        except Exception as error:
            return count, error
        return count, None

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        source, over = _start(at)
        if type(over) is not bool:
            raise TypeError(f"must be a bool but is: {over!r}")
        yield stage.input, source.plain


def _start(at: Cursor) -> tuple[Cursor, bool]:
    source, over = cast("tuple[Json, bool]", at.token or (None, False))
    return Cursor.of(source), over


class TakeWhile(_UntilFalse):
    kind: ClassVar[str] = "take_while"

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, over = _start(at)
        row = at.row
        for block in stage.input.blocks(source, context) if not over else ():
            count, error = self.count_true(block.rows)
            over = error is None and count < len(block)
            if count:
                taken = block.slice(0, count)
                first, row = row, row + count
                yield Block(
                    taken.rows,
                    Cursor([block.at.plain, False], 0, first),
                    Cursor([taken.end.plain, over], 0, row),
                    taken.origins,
                )
            if error is not None:
                raise stage.failed(error, block.at.advance(count), context)
            if over:
                return


class SkipWhile(_UntilFalse):
    kind: ClassVar[str] = "skip_while"

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, over = _start(at)
        row = at.row
        for block in stage.input.blocks(source, context):
            count, error = (0, None) if over else self.count_true(block.rows)
            if error is not None:
                raise stage.failed(error, block.at.advance(count), context)
            over = count < len(block)
            if over:
                rest = block.slice(count, len(block))
                first, row = row, row + len(rest)
                yield Block(
                    rest.rows,
                    Cursor([rest.at.plain, True], 0, first),
                    Cursor([rest.end.plain, True], 0, row),
                    rest.origins,
                )


def take_while(pipe: Pipe[T], /, predicate: Callable[[T], object]) -> Pipe[T]:
    """Give the rows before the first for which `predicate(row)` is false; the rest is not read.

    Element and order are the input's; columns stay columns. Length: unknown; streamed. State: a position in the input.
    It looks at the order of all rows, so each process reads them; see `explain()`.

    Args:
        predicate: called with each row up to that one; its errors come with file, line and row (`RowError`).

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([1, 2, 9, 3]).take_while(lambda x: x < 5))
        [1, 2]
    """
    return pipe.then(TakeWhile(predicate))


def skip_while(pipe: Pipe[T], /, predicate: Callable[[T], object]) -> Pipe[T]:
    """Leave out the rows before the first for which `predicate(row)` is false.

    Element and order are the input's; columns stay columns. Length: unknown; streamed. State: a position in the input.
    It looks at the order of all rows, so each process reads them; see `explain()`.

    Args:
        predicate: called with each row up to that one; its errors come with file, line and row (`RowError`).

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence([1, 2, 9, 3]).skip_while(lambda x: x < 5))
        [9, 3]
    """
    return pipe.then(SkipWhile(predicate))
