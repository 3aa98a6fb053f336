"""`mix`: rows of several pipes in given proportions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

from ...core.checks import check_choice
from ...core.code import value_code
from ...core.context import Context
from ...core.operator import Order, StageView
from ...errors import ArgumentError, ArgumentTypeError, with_call_site
from ._mixture import Mixture, never_ends
from ._turns import FixedTurns, ShuffledTurns, Turns, WeightedTurns, check_weights

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Mix(Mixture):
    kind: ClassVar[str] = "mix"

    shares: Any = field(default=None, kw_only=True)  # `Operator.weights` has the name of the argument
    random: bool = field(default=False, kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    def call(self) -> str:
        shares = self.shares
        codes = [] if shares is None else [f"weights={value_code(shares) if callable(shares) else list(shares)}"]
        codes += [f"stop={self.stop!r}"] if self.stop != "longest" else []
        codes += ["random=True"] if self.random else []
        codes += [f"name={self.name!r}"] if self.name is not None else []
        return f"mix({', '.join(codes)})"

    def reshuffles(self) -> bool:
        return self.random or callable(self.shares)

    def length(self, stage: StageView) -> int | None:
        in_order = not self.random or self.leaves_out or all(source.indexed for source in stage.inputs)
        return super().length(stage) if in_order else None

    def remark(self, stage: StageView) -> str | None:
        return self.contributions(stage)

    def sources(self, stage: StageView, rounds: Sequence[int], first: int, epoch: int) -> list[int]:
        weights = self._weights(stage, epoch)
        going = [number for number in range(len(weights)) if not (self.leaves_out and rounds[number])]
        return [number for number in going if weights[number]] or (going if self.leaves_out else [])

    def turns(self, stage: StageView, sources: Sequence[int], epoch: int) -> FixedTurns:
        weights = self._weights(stage, epoch)
        return WeightedTurns([weights[source] or 1 for source in sources])

    def random_turns(self, stage: StageView, turns: Turns, context: Context, end: int | None = None) -> Turns:
        if not self.random:
            return turns
        return ShuffledTurns(turns, context.key(stage.name), math.inf if end is None else end)

    def _weights(self, stage: StageView, epoch: int) -> Sequence[float]:
        count = len(stage.inputs)
        if not callable(self.shares):
            return cast("Sequence[float]", self.shares or [1] * count)
        try:
            return check_weights(self.shares(epoch), count)
        except (ArgumentError, ArgumentTypeError) as error:
            raise type(error)(with_call_site(f"in epoch {epoch}, {error}", stage.call_site)) from None


@dataclass(frozen=True)
class CountedMix(Mix):
    """Ends by the number of rows of all shards."""

    order: ClassVar[Order] = Order.GLOBAL


def mix(
    pipe: Pipe[T],
    /,
    *others: Pipe[U],
    weights: Sequence[float] | Callable[[int], Sequence[float]] | None = None,
    stop: Literal["first", "longest", "all"] = "longest",
    random: bool = False,
    name: str | None = None,
) -> Pipe[T | U]:
    """Take rows of this pipe and of `others` in given proportions.

        a b c d e f   and   1 2   with weights 3 : 1   ->   a b 1 c d e 2 f

    Element: those of the inputs; tables stay columns if all have one schema. Order: after i rows of a shard, each input
    has given its part of i, give or take less than two rows. Length: with `stop="longest"` the sum of the inputs',
    else where the rule ends. Indexed if all inputs are. State: a position in each input. Memory: a block of each.
    `explain()` says how many rows come from each; of streamed pipes, the log `feedpipe` says it at the end of a
    loader's epoch.

    Args:
        weights: a number for each pipe, this one first; by default all the same. Or a function that returns them for
            the number of an epoch; with `steps=` of a loader, for that of a pass over the data. A pipe of weight 0
            gives its rows when all others have ended.
        stop: "longest" leaves out a pipe that has ended, and the others keep their proportions: no row is lost. "first"
            ends with the first pipe that ends. "all" lets a pipe that has ended begin again, shuffled anew, until each
            has ended once. Every shard reads streamed inputs whole with these two, unless no pipe ends (`.repeat()`).
        random: permute the order of the pipes within blocks of 1024 rows, anew in each epoch.
        name: identifies the operator in the key of its random order, in place of its kind and count.

    Raises:
        ArgumentError: a weight is below 0, all are 0, or there is another number of them; or `weights` is a function
            and `stop` not "longest", because the length would change.
        PlanError: with `stop="all"` a pipe has no rows. If only a run can tell, a `DataError`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcdef").mix(fp.from_sequence([1, 2]), weights=[3, 1]))
        ['a', 'b', 1, 'c', 'd', 'e', 2, 'f']
    """
    check_choice("stop", stop, ("first", "longest", "all"))
    check_choice("random", random, (False, True))
    inputs = (pipe, *others)
    counted = stop != "longest" and not all(map(never_ends, inputs))
    shares = weights if weights is None or callable(weights) else check_weights(weights, len(inputs))
    if counted and callable(shares):
        raise ArgumentError(
            with_call_site(
                f"`weights` must be numbers with `stop={stop!r}`, because the length would depend on them and change "
                'with the epoch; give `stop="longest"`, or `.repeat()` the inputs'
            )
        )
    return pipe.then((CountedMix if counted else Mix)(stop, shares=shares, random=random, name=name), *others)
