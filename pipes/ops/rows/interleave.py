"""`interleave`: the items of several rows in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.block import Block
from ...core.checks import check_callable, check_int
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.operator import Input, Operator, Order, StageView
from ._interleaving import Interleaving, interleaving_cursors

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Interleave(Operator):
    """A token is that of `Interleaving`."""

    kind: ClassVar[str] = "interleave"
    order: ClassVar[Order] = Order.ROW_LOCAL
    expands: ClassVar[bool] = True

    function: Callable[..., Iterable[object]]
    cycle: int = field(kw_only=True)
    block: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_callable("function", self.function)
        object.__setattr__(self, "cycle", check_int("cycle", self.cycle, least=1))
        object.__setattr__(self, "block", check_int("block", self.block, least=1))

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        return interleaving_cursors(self, stage, at)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return Interleaving(self, stage, at, context).blocks()


def interleave(pipe: Pipe[T], /, function: Callable[[T], Iterable[U]], *, cycle: int, block: int = 1) -> Pipe[U]:
    """Replace each row with the items of `function(row)`, of several rows in turn.

        a b c   ->   a1 b1 a2 b2 c1 c2   (`cycle=2`)

    Element: an item; the rows of pipes of tables stay columns. Order: `block` items of each open row in turn. When the
    items of a row have ended, the next row takes its place at its next turn, as in tf.data. Length: unknown; streamed.
    State: the position among the input's rows and in each open one. A resume calls `function` again for these. It
    iterates an iterable again from its start, and a pipe goes on at its own position. Memory: a block of each open row.

    Args:
        function: called once for each row; it returns a pipe, such as `fp.read_parquet(row)`, or any iterable that
            gives the same items each time. Its errors come with file, line and row (`RowError`).
        cycle: how many rows are open at once.
        block: how many items of a row come in one turn.

    Raises:
        ArgumentError: `cycle` or `block` is below 1.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence(["aaa", "b", "cc"]).interleave(list, cycle=2))
        ['a', 'b', 'a', 'a', 'c', 'c']
    """
    return pipe.then(Interleave(function, cycle=cycle, block=block))
