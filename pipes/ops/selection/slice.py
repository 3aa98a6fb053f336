"""`take`, `skip` and `slice`: some of the rows, by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.checks import check_int
from ._slicing import SliceBase

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def take(pipe: Pipe[T], /, count: int) -> Pipe[T]:
    """Give only the first `count` rows of the pipe, across all shards.

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
