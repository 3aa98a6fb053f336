"""`take`, `skip`, `slice` and `take_while`: some of the rows, by position or up to a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from ..core.block import Block
from ..core.checks import check_callable, check_int
from ..core.context import Context
from ..core.cursor import Cursor, Json
from ..core.operator import Amount, Input, Order, StageView, TokenOfInput
from ..core.rows import BlockRows, Indices
from ._shared import Rearranged, SameRows

if TYPE_CHECKING:
    from ..pipe import Pipe


T = TypeVar("T")


def take(pipe: Pipe[T], /, count: int) -> Pipe[T]:
    """Give only the first `count` rows of the pipe, across all shards.

        a b c d e   ->   take(3): a b c

    Element and order are the input's. Length: `count`, or the input's if that is less. Indexed if the input is. State:
    a position.

    Args:
        count: the number of rows to give.

    Raises:
        ArgumentError: `count` is below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcd").take(2))
        ['a', 'b']
    """
    return pipe.then(Take(count))


def skip(pipe: Pipe[T], /, count: int) -> Pipe[T]:
    """Leave out the first `count` rows of the pipe, across all shards.

        a b c d e   ->   skip(3): d e

    Element and order are the input's. Length: the input's less `count`, at least 0. Indexed if the input is. State: a
    position.

    Args:
        count: the number of rows to leave out.

    Raises:
        ArgumentError: `count` is below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcd").skip(2))
        ['c', 'd']
    """
    return pipe.then(Skip(count))


def slice(pipe: Pipe[T], /, start: int, stop: int | None, step: int = 1) -> Pipe[T]:
    """Give rows `start`, `start + step`, ... before `stop` of the pipe, across all shards.

        a b c d e f   ->   slice(1, None, 2): b d f

    Element and order are the input's. Length: as of a slice of a list. Indexed if the input is. State: a position.

    Args:
        start: the position of the first row to give, from 0.
        stop: the position before which the slice ends; None for the end of the pipe.
        step: the distance between two rows to give.

    Raises:
        ArgumentError: `start` or `stop` is below 0, or `step` below 1.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcdef").slice(1, None, 2))
        ['b', 'd', 'f']
    """
    return pipe.then(Slice(start, stop, step))


class SliceBase(TokenOfInput, Rearranged):
    """Gives rows start, start + step, ... before stop, by their positions among all rows."""

    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    @abstractmethod
    def bounds(self) -> tuple[int, int | None, int]:
        """Start, stop and step; a stop of None is the end of the rows."""

    def length(self, stage: StageView) -> int | None:
        start, stop, step = self.bounds()
        rows = stage.input.length
        if rows is None:
            return None
        return len(range(start, rows if stop is None else min(stop, rows), step))

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        start, _, step = self.bounds()
        if isinstance(indices, range):
            return range(start + indices.start * step, start + indices.stop * step, indices.step * step)
        return start + indices * step

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        amount = super().amount_before(stage, at, context)
        start, stop, step = self.bounds()
        if stop is None:
            return amount
        rows = Amount(at.position, len(range(start, stop, step)))
        if amount is None:
            return rows
        return amount._replace(done=max(amount.fraction, rows.fraction) * amount.total)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        start, stop, step = self.bounds()
        row = at.position
        position = start + row * step  # of the next row, in the input
        if stop is not None and position >= stop:
            return
        source = Cursor.of(at.token)
        inner = context.part()
        blocks = stage.input.blocks(source.advance(position - source.position), inner)
        with closing(inner.running):
            for block in blocks:
                first = block.at.position
                last = first + len(block) if stop is None else min(stop, first + len(block))
                indices = range(position - first, last - first, step)
                if indices:
                    rows, origins = block.select(indices)
                    position += len(indices) * step
                    count = position - first  # rows of the block that need not be read again
                    end = block.end if count == len(block) else block.at.advance(count)
                    here = Cursor(block.at.advance(indices.start).plain, 0, row)
                    row += len(indices)
                    yield Block(rows, here, Cursor(end.plain, 0, row), origins)
                if stop is not None and position >= stop:
                    return


@dataclass(frozen=True, eq=False, repr=False)
class _Count(SliceBase):
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_int("count", self.count, least=0))


class Take(_Count):
    kind: ClassVar[str] = "take"

    def bounds(self) -> tuple[int, int | None, int]:
        return 0, self.count, 1


class Skip(_Count):
    kind: ClassVar[str] = "skip"

    def bounds(self) -> tuple[int, int | None, int]:
        return self.count, None, 1


@dataclass(frozen=True, eq=False, repr=False)
class Slice(SliceBase):
    kind: ClassVar[str] = "slice"

    start: int
    stop: int | None
    step: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", check_int("start", self.start, least=0))
        if self.stop is not None:
            object.__setattr__(self, "stop", check_int("stop", self.stop, least=0))
        object.__setattr__(self, "step", check_int("step", self.step, least=1))

    def bounds(self) -> tuple[int, int | None, int]:
        return self.start, self.stop, self.step


def take_while(pipe: Pipe[T], /, predicate: Callable[[T], object]) -> Pipe[T]:
    """Give the rows before the first for which `predicate(row)` is false; the rest is not read.

        A B c D   ->   take_while(str.isupper): A B

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


@dataclass(frozen=True, eq=False, repr=False)
class TakeWhile(SameRows):
    """A token is [cursor in the input, true after the first row for which the predicate is false]."""

    kind: ClassVar[str] = "take_while"
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

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        source, over = _start(at)
        row = at.row
        inner = context.part()
        blocks = stage.input.blocks(source, inner) if not over else iter(())
        with closing(inner.running):
            for block in blocks:
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


def _start(at: Cursor) -> tuple[Cursor, bool]:
    source, over = cast("tuple[Json, bool]", at.token or (None, False))
    return Cursor.of(source), over
