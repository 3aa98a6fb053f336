"""`take`, `skip` and `slice`: a part of the rows, by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ..block import Block
from ..checks import check_int
from ..context import Context
from ..cursor import Cursor
from ..errors import Origin
from ..rows import Indices, RowList
from ..traits import Operator, Order

if TYPE_CHECKING:
    from ..pipe import Pipe
    from ..stage import Stage

T = TypeVar("T")


class _Part(Operator):
    """Rows start, start + step, ... before stop."""

    order: ClassVar[Order] = Order.GLOBAL
    seeks: ClassVar[bool] = True

    def bounds(self) -> tuple[int, int | None, int]:
        raise AssertionError

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def length(self, stage: Stage) -> int | None:
        start, stop, step = self.bounds()
        rows = stage.input.length
        if rows is None:
            return None
        return len(range(start, rows if stop is None else min(stop, rows), step))

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        start, _, step = self.bounds()
        return stage.input.origin(start + index * step, context)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> RowList:
        start, _, step = self.bounds()
        if isinstance(indices, range):
            inner = range(start + indices.start * step, start + indices.stop * step, indices.step * step)
            return stage.input.rows(inner, context)
        return stage.input.rows(start + np.asarray(indices, np.int64) * step, context)

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        start, stop, step = self.bounds()
        row = at.position
        source = Cursor.of(at.token)
        wanted = start + row * step  # the position of the next row in the input
        if stop is not None and wanted >= stop:
            return
        for block in stage.input.blocks(source.advance(wanted - source.position), context):
            first = block.at.position
            last = first + len(block) if stop is None else min(stop, first + len(block))
            chosen = range(wanted - first, last - first, step)
            if chosen:
                rows, origins = block.kept(chosen)
                wanted += len(chosen) * step
                ends = wanted - first
                end = block.end if ends == len(block) else block.at.advance(ends)
                here = Cursor(block.at.advance(chosen.start).plain, 0, row)
                yield Block(rows, here, Cursor(end.plain, 0, row + len(chosen)), origins)
                row += len(chosen)
            if stop is not None and wanted >= stop:
                return


@dataclass(frozen=True)
class Take(_Part):
    kind: ClassVar[str] = "take"

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_int("count", self.count, least=0))

    def bounds(self) -> tuple[int, int | None, int]:
        return 0, self.count, 1


@dataclass(frozen=True)
class Skip(_Part):
    kind: ClassVar[str] = "skip"

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", check_int("count", self.count, least=0))

    def bounds(self) -> tuple[int, int | None, int]:
        return self.count, None, 1


@dataclass(frozen=True)
class Slice(_Part):
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


def take(pipe: Pipe[T], /, count: int) -> Pipe[T]:
    """Give the first `count` rows, of all rows of the pipe.

    Element and order are the input's; length is at most `count`; indexed where the input is. State: a position.

    Raises:
        ArgumentError: `count` is below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcd").take(2))
        ['a', 'b']
    """
    return pipe.then(Take(count))


def skip(pipe: Pipe[T], /, count: int) -> Pipe[T]:
    """Leave out the first `count` rows, of all rows of the pipe.

    Element and order are the input's; indexed where the input is. State: a position.

    Raises:
        ArgumentError: `count` is below 0.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcd").skip(2))
        ['c', 'd']
    """
    return pipe.then(Skip(count))


def slice(pipe: Pipe[T], /, start: int, stop: int | None, step: int = 1) -> Pipe[T]:
    """Give rows `start`, `start + step`, ... before `stop`, by position among all rows of the pipe.

    Element and order are the input's; indexed where the input is. State: a position.

    Raises:
        ArgumentError: `start` or `stop` is below 0, or `step` below 1.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcdef").slice(1, None, 2))
        ['b', 'd', 'f']
    """
    return pipe.then(Slice(start, stop, step))
