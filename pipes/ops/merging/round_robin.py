"""`round_robin`: one row of each pipe in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from ...core.checks import check_choice
from ...core.operator import Order, StageView
from ._mixture import Mixture, never_ends
from ._turns import EqualTurns, FixedTurns

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class RoundRobin(Mixture):
    kind: ClassVar[str] = "round_robin"

    def sources(self, stage: StageView, rounds: Sequence[int], first: int, epoch: int) -> list[int]:
        count = len(stage.inputs)
        order = [*range(first, count), *range(min(first, count))]
        return [source for source in order if not (self.leaves_out and rounds[source])]

    def turns(self, stage: StageView, sources: Sequence[int], epoch: int) -> FixedTurns:
        return EqualTurns(len(sources))


@dataclass(frozen=True)
class CountedRoundRobin(RoundRobin):
    """Ends by the number of rows of all shards."""

    order: ClassVar[Order] = Order.GLOBAL


def round_robin(
    pipe: Pipe[T], /, *others: Pipe[U], stop: Literal["first", "longest", "all"] = "longest"
) -> Pipe[T | U]:
    """Take one row of this pipe and of each of `others` in turn.

        a b c   and   1 2   ->   a 1 b 2 c

    Element: those of the inputs; tables stay columns if all have one schema. Order: the inputs'. Length: with
    `stop="longest"` the sum of the inputs', else where the rule ends. Indexed if all inputs are. State: a position in
    each input. Memory: a block of each.

    Args:
        stop: "longest" leaves out a pipe that has ended: no row is lost. "first" ends with the first pipe that ends.
            "all" lets a pipe that has ended begin again, shuffled anew, until each has ended once. Every shard reads
            streamed inputs whole with these two, unless no pipe ends (`.repeat()`).

    Raises:
        PlanError: with `stop="all"` a pipe has no rows. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").round_robin(fp.from_sequence([1, 2])))
        ['a', 1, 'b', 2, 'c']
        >>> list(fp.from_sequence("abc").round_robin(fp.from_sequence([1, 2]), stop="all"))
        ['a', 1, 'b', 2, 'c', 1]
    """
    check_choice("stop", stop, ("first", "longest", "all"))
    inputs = (pipe, *others)
    counted = stop != "longest" and not all(map(never_ends, inputs))
    return pipe.then((CountedRoundRobin if counted else RoundRobin)(stop), *others)
