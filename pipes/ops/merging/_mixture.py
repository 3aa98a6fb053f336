"""`Mixture`: the base of the operators that take rows of several inputs in turn, `mix` and `round_robin`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from ...core.block import Block
from ...core.context import Context
from ...core.cursor import Cursor, Json
from ...core.gather import gather
from ...core.graph import Node
from ...core.operator import Input, Operator, Order, StageView, Weights
from ...core.rows import BlockRows, Indices, concat, index_array, take
from ...errors import PlanError, with_call_site
from ..selection.repeat import Repeat
from ._mixture_layout import MixtureLayout, MixtureSegment
from ._mixture_run import MixtureRun, mixture_cursors
from ._turns import FixedTurns, Turns

if TYPE_CHECKING:
    import pyarrow as pa

MIN_STRETCH = 32
"""The turns of this many neighbouring rows are computed with those around them."""


@dataclass(frozen=True)
class Mixture(Operator, ABC):
    """A token is that of `MixtureRun`.

    The turns of the inputs are in closed form as long as no input ends. With `stop="longest"`, an input that has ended
    is left out: from its next turn on, the turns of the others begin anew.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL

    stop: str = "longest"
    columnar: bool = field(default=False, repr=False)

    def moves_skipped(self) -> bool:
        return True

    @property
    def leaves_out(self) -> bool:
        """Whether an input that has ended is left out."""
        return self.order is Order.ROW_LOCAL

    @property
    def repeats_inputs(self) -> bool:
        """Whether an input that has ended begins again."""
        return self.stop == "all" and not self.leaves_out

    @abstractmethod
    def sources(self, stage: StageView, rounds: Sequence[int], first: int, epoch: int) -> list[int]:
        """The inputs that have turns now, in the order in which they get them.

        Args:
            rounds: how often each input has ended.
            first: the input from which the order begins.
            epoch: the pass over the data.
        """

    @abstractmethod
    def turns(self, stage: StageView, sources: Sequence[int], epoch: int) -> FixedTurns:
        """The turns of these inputs, in an order that is not random."""

    def random_turns(self, stage: StageView, turns: Turns, context: Context, end: int | None = None) -> Turns:
        """The turns as they are used; none from `end` on."""
        return turns

    def resolve(self, stage: StageView) -> Operator:
        # Decided for the graph without shards, so that it is the same in each of them.
        return replace(self, columnar=_common_schema(stage) is not None)

    def schema(self, stage: StageView) -> pa.Schema | None:
        return _common_schema(stage)

    def length(self, stage: StageView) -> int | None:
        lengths = [source.length for source in stage.inputs]
        if None in lengths:
            return None
        known = cast("list[int]", lengths)
        return sum(known) if self.leaves_out else self._segments(stage, known, 0)[-1].stop

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        parts = [weights for source in stage.inputs if (weights := source.weights(context)) is not None]
        if not self.leaves_out or len(parts) < len(stage.inputs) or len({part.are_rows for part in parts}) > 1:
            return None
        values = np.concatenate([part.values for part in parts])
        return Weights(values[self._layout(stage, context).places(np.arange(len(values)))], parts[0].are_rows)

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        layout = self._layout(stage, context)
        place = int(layout.places(np.array([index]))[0])
        part = int(np.searchsorted(layout.bounds, place, "right")) - 1
        source, inner = layout.part(part, context)
        yield stage.inputs[source], place - int(layout.bounds[part]), inner

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        layout = self._layout(stage, context)

        def rows_of(part: int, places: Indices) -> BlockRows:
            source, inner = layout.part(part, context)
            rows = stage.inputs[source].rows(_as_range(places), inner)
            return rows if self.columnar or isinstance(rows, list) else list(rows)

        if not isinstance(indices, range) or indices.step != 1 or len(indices) < MIN_STRETCH:
            return gather(layout.places(index_array(indices)), layout.bounds, rows_of)
        stretches = [
            take(concat([rows_of(part, own) for part, own in parts]), places)
            for parts, places in layout.stretches(indices)
        ]
        return concat(stretches)

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        return mixture_cursors(stage, at)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return MixtureRun(self, stage, at, context).blocks()

    def _layout(self, stage: StageView, context: Context) -> MixtureLayout:
        def make() -> MixtureLayout:
            lengths = [source.length or 0 for source in stage.inputs]
            segments = self._segments(stage, lengths, context.epoch)
            random = [s._replace(turns=self.random_turns(stage, s.turns, context, s.stop - s.start)) for s in segments]
            return MixtureLayout(lengths, random, repeats=self.repeats_inputs)

        return stage.memo(("mixture", context.seed, context.epoch, context.rounds, context.shard), make)

    def _segments(self, stage: StageView, lengths: Sequence[int], epoch: int) -> list[MixtureSegment]:
        """The rows between the ends of inputs of these lengths."""
        rounds, given, start, first = [0] * len(lengths), [0] * len(lengths), 0, 0
        segments: list[MixtureSegment] = []
        while sources := self.sources(stage, rounds, first, epoch):
            turns = self.turns(stage, sources, epoch)
            ends = [turns.position(number, lengths[k] - given[k]) for number, k in enumerate(sources)]
            if self.repeats_inputs:
                self._check_not_empty(stage, lengths, sources)
            stop = max(ends) if self.repeats_inputs else min(ends)
            before = list(given)
            for k, count in zip(sources, turns.counts(stop), strict=True):
                given[k] += count
            segments.append(
                MixtureSegment(start, start + stop, np.array(sources), np.array(before), tuple(given), turns)
            )
            if not self.leaves_out:
                break
            ended = sources[ends.index(stop)]
            start, first, rounds[ended] = start + stop, ended + 1, 1
        return segments

    def _check_not_empty(self, stage: StageView, lengths: Sequence[int], sources: Sequence[int]) -> None:
        for number in sources:
            if not lengths[number]:
                raise PlanError(with_call_site(self.empty_input(number), stage.call_site))

    def empty_input(self, number: int) -> str:
        """The message if an input without rows is to begin again."""
        return (
            f'input {number + 1} of `{self.kind}(stop="all")` has no rows, so it cannot begin again; leave it out, or '
            'give `stop="longest"`'
        )

    def contributions(self, stage: StageView) -> str | None:
        """How many rows each input gives, if that is known."""
        lengths = [source.length for source in stage.inputs]
        if None in lengths:
            return None
        segments = self._segments(stage, cast("list[int]", lengths), 0)
        text = f"takes {', '.join(map(str, segments[-1].given_after))} rows of its inputs"
        if len(segments) > 1 and segments[0].stop < segments[-1].stop:
            text += f"; the first to end does so after {segments[0].stop} rows, and the others go on"
        return text


def never_ends(pipe: object) -> bool:
    """Whether a pipe surely has no end: it is repeated without one, and nothing cuts it off."""
    if not isinstance(pipe, Node):
        return False
    if isinstance(pipe.op, Repeat) and pipe.op.times is None:
        return True
    return bool(pipe.inputs) and pipe.op.order is not Order.GLOBAL and all(map(never_ends, pipe.inputs))


def _common_schema(stage: StageView) -> pa.Schema | None:
    """The schema of all inputs, if they have one; their rows then stay columns.

    Otherwise all rows become Python rows, or whether rows are columns would depend on where a block ends.
    """
    first, *others = (source.schema for source in stage.inputs)
    return (
        first if first is not None and all(schema is not None and schema.equals(first) for schema in others) else None
    )


def _as_range(places: Indices) -> Indices:
    """Neighbouring places as a `range`, so that storage can slice."""
    if isinstance(places, range) or not len(places) or int(places[-1] - places[0]) != len(places) - 1:
        return places
    return range(int(places[0]), int(places[-1]) + 1) if (np.diff(places) == 1).all() else places
