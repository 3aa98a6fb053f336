"""`unzip`: the items of tuples, each in a pipe of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, overload

from ...core.checks import check_int
from ...core.cursor import Json
from ...core.operator import StageView
from ...errors import UnfitError
from .._data_error import data_error
from ..rows._map import Map

if TYPE_CHECKING:
    from ...pipe import Pipe

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


@dataclass(frozen=True)
class ItemOfTuple:
    """Returns item `number` of a tuple of `count` items."""

    count: int
    number: int

    def __call__(self, row: Any) -> object:
        if not isinstance(row, (tuple, list)):
            raise UnfitError(f"rows must be tuples or lists but one is of type {type(row).__name__}")
        items = cast("tuple[object, ...]", row)
        if len(items) != self.count:
            raise UnfitError(f"rows must have {self.count} items but one has {len(items)}")
        return items[self.number]


@dataclass(frozen=True)
class Unzip(Map):
    """A `map` whose function is an `ItemOfTuple`."""

    kind: ClassVar[str] = "unzip"

    function: Callable[..., object]

    def call(self) -> str:
        item = cast("ItemOfTuple", self.function)
        return f"unzip({item.count})[{item.number}]"

    def identity(self) -> Json:
        return {"call": self.call()}

    def remark(self, stage: StageView) -> None:
        return None

    def row_error(self, error: Exception) -> Exception:
        return data_error(self, error)


@overload
def unzip(pipe: Pipe[tuple[A, B]], /, count: Literal[2]) -> tuple[Pipe[A], Pipe[B]]: ...
@overload
def unzip(pipe: Pipe[tuple[A, B, C]], /, count: Literal[3]) -> tuple[Pipe[A], Pipe[B], Pipe[C]]: ...
@overload
def unzip(pipe: Pipe[tuple[A, B, C, D]], /, count: Literal[4]) -> tuple[Pipe[A], Pipe[B], Pipe[C], Pipe[D]]: ...
@overload
def unzip(
    pipe: Pipe[tuple[A, B, C, D, E]], /, count: Literal[5]
) -> tuple[Pipe[A], Pipe[B], Pipe[C], Pipe[D], Pipe[E]]: ...
@overload
def unzip(pipe: Pipe[Any], /, count: int) -> tuple[Pipe[Any], ...]: ...
def unzip(pipe: Pipe[Any], /, count: int) -> tuple[Pipe[Any], ...]:
    """Give each item of tuples in a pipe of its own.

        (a 1) (b 2)   ->   a b   and   1 2

    Element: item 0 of each row in the first pipe, item 1 in the second, and so on. Order and length are the input's.
    Indexed if the input is. State: none. Each pipe reads the input by itself; put `fork` before it, or `load`, if that
    is costly.

    Args:
        count: the number of items of each tuple or list, and of pipes.

    Raises:
        ArgumentError: `count` is below 1.
        DataError: a row is no tuple or list, or has another number of items.

    Example:
        >>> import feedpipe as fp
        >>> letters, numbers = fp.from_sequence([("a", 1), ("b", 2)]).unzip(2)
        >>> list(letters), list(numbers)
        (['a', 'b'], [1, 2])
    """
    count = check_int("count", count, least=1)
    return tuple(pipe.then(Unzip(ItemOfTuple(count, number))) for number in range(count))
