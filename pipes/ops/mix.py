"""`mix` and `round_robin`: rows of several pipes in turn, or in given proportions."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, cast

import numpy as np

from ..core.block import Block
from ..core.checks import check_choice
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import START, Cursor, Json, check_numbers
from ..core.graph import Node, find_reshuffle, node_code, walk
from ..core.operator import Input, Operator, Order, StageView, Weights
from ..core.rows import BlockRows, Indices, concat, gather, index_array, take, take_joined
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, PlanError, PlanWarning, warn, with_call_site
from ._turns import (
    EqualTurns,
    FixedTurns,
    Ints,
    ShuffledTurns,
    Stretch,
    Turns,
    TurnWindow,
    WeightedTurns,
    check_weights,
)
from .repeat import Repeat

if TYPE_CHECKING:
    import pyarrow as pa

    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")

log = logging.getLogger("feedpipe")

MIN_STRETCH = 32
"""The turns of this many neighbouring rows are computed with those around them."""


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
            the number of an epoch, which begins all pipes again; with `steps=` of a loader, for that of a pass over the
            data. A pipe of weight 0 gives its rows when all others have ended.
        stop: "longest" leaves out a pipe that has ended, and the others keep their proportions: no row is lost. "first"
            ends with the first pipe that ends. "all" lets a pipe that has ended begin again, in a new order, until each
            has ended once. Every shard reads streamed inputs whole with these two, unless no pipe ends (`.repeat()`).
        random: permute the order of the pipes within blocks of 1024 rows, in each epoch in another way.
        name: identifies the operator in the key of its random order, instead of its kind and count.

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
            "all" lets a pipe that has ended begin again, in a new order, until each has ended once. Every shard reads
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


@dataclass(frozen=True)
class Mixture(Operator, ABC):
    """A token is that of `MixtureRun`.

    The turns of the inputs are in closed form until an input ends. With `stop="longest"`, an input that has ended is
    left out: from its next turn on, the turns of the others start over.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL

    stop: str = "longest"
    columnar: bool = field(default=False, repr=False)

    def moves_skipped(self) -> bool:
        return True

    @property
    def leaves_out(self) -> bool:
        """True if an input that has ended is left out."""
        return self.order is Order.ROW_LOCAL

    @property
    def repeats_inputs(self) -> bool:
        """True if an input that has ended begins again."""
        return self.stop == "all" and not self.leaves_out

    @abstractmethod
    def sources(self, stage: StageView, rounds: Sequence[int], first: int, epoch: int) -> list[int]:
        """The inputs that have turns now, in the order in which they get them.

        Args:
            rounds: the number of times that each input has ended.
            first: the input from which the order begins.
            epoch: the pass over the data.
        """

    @abstractmethod
    def turns(self, stage: StageView, sources: Sequence[int], epoch: int) -> FixedTurns:
        """The turns of these inputs, in an order that is not random."""

    def random_turns(self, stage: StageView, turns: Turns, context: Context, end: int | None = None) -> Turns:
        """The turns in their final order; there are none from `end` on."""
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
        position, first, rounds, cursors = _read_token(at.token, len(stage.inputs))
        check_numbers(position, first, *rounds)
        yield from zip(stage.inputs, cursors, strict=True)

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
        """The message for an input without rows that has to begin again."""
        return (
            f'input {number + 1} of `{self.kind}(stop="all")` has no rows, so it cannot begin again; leave it out, or '
            'give `stop="longest"`'
        )

    def contributions(self, stage: StageView) -> str | None:
        """The number of rows that each input gives, if it is known."""
        lengths = [source.length for source in stage.inputs]
        if None in lengths:
            return None
        segments = self._segments(stage, cast("list[int]", lengths), 0)
        text = f"takes {', '.join(map(str, segments[-1].given_after))} rows of its inputs"
        if len(segments) > 1 and segments[0].stop < segments[-1].stop:
            text += f"; the first to end does so after {segments[0].stop} rows, and the others go on"
        return text


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


def never_ends(pipe: object, endless: Node | None = None) -> bool:
    """True if a pipe is known to have no end: it is repeated without one, and nothing cuts it off.

    Args:
        pipe: an input, or what the user gave for it.
        endless: a node that has no end.
    """
    if not isinstance(pipe, Node):
        return False
    if pipe is endless or (isinstance(pipe.op, Repeat) and pipe.op.times is None):
        return True
    if not pipe.inputs or pipe.op.order is Order.GLOBAL:
        return False
    return all(never_ends(source, endless) for source in pipe.inputs)


def warn_of_weights(pipe: Node, *, by_steps: bool) -> None:
    """Warn if weights that are a function of the epoch do less than they seem to in a loader of `pipe`.

    Args:
        pipe: the whole chain.
        by_steps: if the loader ends epochs by `steps=`.
    """
    for node in walk(pipe):
        if not (isinstance(node.op, Mix) and callable(node.op.shares) and any(map(never_ends, node.inputs))):
            continue
        message = None
        if by_steps and never_ends(pipe, node):
            message = (
                "the weights stay those of epoch 0, because `steps=` cuts one pass over the data into epochs, and this "
                "pass never ends; put `.take(n)` after it and leave out `steps=`, and each epoch has weights of its own"
            )
        elif not by_steps and any(never_ends(source) and find_reshuffle(source) is None for source in node.inputs):
            message = (
                "each epoch begins the inputs again, so it has the same first rows of those that are not shuffled; put "
                "`.shuffle()` before `.repeat()`"
            )
        if message is not None:
            warn(f"`{node_code(node).lstrip('.')}`: {message}", PlanWarning, node.call_site)


def _common_schema(stage: StageView) -> pa.Schema | None:
    """The schema that all inputs share, if they do; their rows then stay columns.

    Otherwise all rows become Python rows: the type of a row must not depend on the ends of blocks.
    """
    first, *others = (source.schema for source in stage.inputs)
    if first is None or any(schema is None or not schema.equals(first) for schema in others):
        return None
    return first


def _as_range(places: Indices) -> Indices:
    """Neighbouring places as a `range`, so that storage can slice."""
    if isinstance(places, range) or not len(places) or int(places[-1] - places[0]) != len(places) - 1:
        return places
    return range(int(places[0]), int(places[-1]) + 1) if (np.diff(places) == 1).all() else places


# Indexed inputs: the layout of a mixture.


class MixtureSegment(NamedTuple):
    """The rows from the end of one input to that of the next.

    Attributes:
        start, stop: the positions of these rows.
        sources: the inputs that they come from, by their number among the turns.
        given, given_after: the rows that each input has given before them, and with them.
        turns: the turns from `start` on.
    """

    start: int
    stop: int
    sources: Ints
    given: Ints
    given_after: tuple[int, ...]
    turns: Turns


class MixtureLayout:
    """All rows of the inputs one after the other, in parts: one for each input, or for each round of an input.

    Attributes:
        bounds: part k holds the places `bounds[k]` to `bounds[k + 1]`.
        segments: of the rows that come out; `starts` are their first positions.
    """

    def __init__(self, lengths: Sequence[int], segments: Sequence[MixtureSegment], *, repeats: bool) -> None:
        rounds = [1] * len(lengths)
        if repeats:
            for k in segments[0].sources.tolist():
                rounds[k] = -(-segments[0].given_after[k] // lengths[k])
        self.segments = segments
        self.starts = np.array([segment.start for segment in segments])
        self._repeats = repeats
        self._parts = [(source, round_) for source, count in enumerate(rounds) for round_ in range(count)]
        self.bounds = np.cumsum([0, *(lengths[source] for source, _ in self._parts)], dtype=np.int64)
        self._first_places = self.bounds[np.cumsum([0, *rounds[:-1]])]
        self._window: tuple[int, TurnWindow] | None = None  # the one used last, and its segment

    def part(self, number: int, context: Context) -> tuple[int, Context]:
        """The input of a part, and the context to read it in."""
        source, round_ = self._parts[number]
        return source, context.round(round_) if self._repeats else context

    def places(self, positions: Ints) -> Ints:
        """The places of the rows at `positions`."""
        if len(self.segments) == 1:
            return self._places_in(0, positions)
        numbers = np.searchsorted(self.starts, positions, "right") - 1
        places = np.empty_like(positions)
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            places[inside] = self._places_in(number, positions[inside])
        return places

    def _places_in(self, number: int, positions: Ints) -> Ints:
        """The places of the rows at `positions`, which are in one segment."""
        segment = self.segments[number]
        sources, before = segment.turns.at(positions - segment.start)
        own = segment.sources[sources]
        places: Ints = self._first_places[own] + segment.given[own] + before
        return places

    def stretches(self, positions: range) -> Iterator[tuple[list[tuple[int, range]], Ints]]:
        """Neighbouring rows: parts and their rows, and the place of each row among these."""
        start = positions.start
        while start < positions.stop:
            number = int(np.searchsorted(self.starts, start, "right")) - 1
            segment = self.segments[number]
            window = self._window_at(number, start - segment.start)
            stop = min(positions.stop, segment.start + window.stop)
            stretch = window.stretch(start - segment.start, stop - segment.start)
            yield list(self._parts_of(segment, stretch)), stretch.places
            start = stop

    def _window_at(self, number: int, position: int) -> TurnWindow:
        last = self._window
        if last is not None and last[0] == number and last[1].start <= position < last[1].stop:
            return last[1]
        segment = self.segments[number]
        window = TurnWindow(segment.turns, len(segment.sources), position, segment.stop - segment.start)
        self._window = number, window
        return window

    def _parts_of(self, segment: MixtureSegment, stretch: Stretch) -> Iterator[tuple[int, range]]:
        for source, first, count in stretch.parts():
            own = segment.sources[source]
            place = int(self._first_places[own] + segment.given[own]) + first
            stop = place + count
            while place < stop:
                part = int(np.searchsorted(self.bounds, place, "right")) - 1
                start, end = int(self.bounds[part]), min(stop, int(self.bounds[part + 1]))
                yield part, range(place - start, end - start)
                place = end


# Streamed inputs: a run of a mixture.


class MixtureRun:
    """One run.

    A token is [position among the turns, input from which their order begins, the times that each input has ended,
    cursors]. A block of an input is read when the input has a turn and no rows are left of its last block. A block of
    the mixture has as many rows as the blocks at hand give.
    """

    def __init__(self, op: Mixture, stage: StageView, at: Cursor, context: Context) -> None:
        count = len(stage.inputs)
        self._position, self._first, rounds, cursors = _read_token(at.token, count)
        self._op = op
        self._stage = stage
        self._context = context.part()
        self._row = at.row
        self._rounds = list(rounds)
        self._cursors = list(cursors)
        self._readers = [self._reader(source) for source in range(count)]
        self._rows_given = [0] * count
        self._rows_taken = context.process.resources.get(
            ("mixture", stage.name, context.epoch), lambda: _RowsTaken(op.kind, context.epoch, count)
        )
        self._block_size = context.block_size()

    def blocks(self) -> Iterator[Block]:
        op, stage, epoch = self._op, self._stage, self._context.epoch
        try:
            while sources := op.sources(stage, self._rounds, self._first, epoch):
                turns = op.random_turns(stage, op.turns(stage, sources, epoch), self._context)
                ended = yield from self._until_an_end(sources, turns)
                if not self._goes_on_after(ended, sources):
                    return
        finally:
            self._context.running.close()
            self._rows_taken.add(self._rows_given)

    def _goes_on_after(self, ended: int, sources: Sequence[int]) -> bool:
        """True if there are rows after the end of an input; note that end."""
        self._rounds[ended] += 1
        if self._op.leaves_out:
            self._cursors[ended] = None
            self._position, self._first = 0, ended + 1
            return True
        if not self._op.repeats_inputs or all(self._rounds[source] for source in sources):
            return False
        if self._readers[ended].is_empty:
            raise DataError(with_call_site(self._op.empty_input(ended), self._stage.call_site))
        self._cursors[ended] = None
        self._readers[ended] = self._reader(ended)
        return True

    def _reader(self, source: int) -> _MixedInput:
        context = self._context.round(self._rounds[source]) if self._op.repeats_inputs else self._context
        at = Cursor.of(self._cursors[source])
        return _MixedInput(self._stage.inputs[source].blocks(at, context), at)

    def _until_an_end(self, sources: Sequence[int], turns: Turns) -> Generator[Block, None, int]:
        """The rows up to the turn of an input that has ended. Return the number of that input."""
        window = TurnWindow(turns, len(sources), self._position)
        while True:
            if self._position == window.stop:
                window = TurnWindow(turns, len(sources), self._position)
            source = sources[window.source(self._position)]
            reader = self._readers[source]
            if not reader.rows_left and not reader.read():
                return source
            output = [self._mixed(sources, window)]
            self._block_size.produced(output[0].rows)
            yield output.pop()

    def _mixed(self, sources: Sequence[int], window: TurnWindow) -> Block:
        """The rows of the next turns, up to the end of the rows at hand or of the window."""
        at = Cursor(self._token(), 0, self._row)
        stop = min(self._position + self._block_size.rows(), window.stop)
        stretch = window.stretch(self._position, stop, [self._readers[source].rows_left for source in sources])
        parts: list[BlockRows] = []
        origins: list[Origin | None] = []
        for number, _, count in stretch.parts():
            source = sources[number]
            part = self._readers[source].take(count)
            parts.append(part.rows if self._op.columnar or isinstance(part.rows, list) else list(part.rows))
            origins += part.origins or ()
            self._cursors[source] = self._readers[source].cursor.plain
            self._rows_given[source] += count
        places = stretch.places
        self._position += len(places)
        self._row += len(places)
        rows = parts[0] if len(parts) == 1 else take_joined(parts, places)[0]
        return Block(
            rows, at, Cursor(self._token(), 0, self._row), [origins[place] for place in places] if origins else None
        )

    def _token(self) -> Json:
        return [self._position, self._first, list(self._rounds), list(self._cursors)]


def _read_token(token: Json, inputs: int) -> tuple[int, int, list[int], list[Json]]:
    start = [0, 0, [0] * inputs, [None] * inputs]
    return cast("tuple[int, int, list[int], list[Json]]", token or start)


class _MixedInput:
    """A reader of one input.

    Attributes:
        cursor: of the next row.
        rows_left: the number of rows left of the block that was read last.
        is_empty: true if it was read from the start and gave no rows.
    """

    def __init__(self, blocks: Iterator[Block], at: Cursor) -> None:
        self.cursor = at
        self.rows_left = 0
        self.is_empty = at == START
        self._blocks = blocks
        self._block: Block | None = None

    def read(self) -> bool:
        """Read the next block. False if there is none."""
        self._block = next(self._blocks, None)
        if self._block is None:
            return False
        self.rows_left = len(self._block)
        self.is_empty = False
        return True

    def take(self, count: int) -> Block:
        """The next `count` rows, which are in one block."""
        block = self._block
        assert block is not None, "only rows at hand are taken"
        start = len(block) - self.rows_left
        part = block.slice(start, start + count)
        self.cursor = part.end
        self.rows_left -= count
        if not self.rows_left:
            self._block = None
        return part


class _RowsTaken:
    """The rows that the shards of one process have taken of each input in one epoch; logged at its end."""

    def __init__(self, kind: str, epoch: int, inputs: int) -> None:
        self._kind = kind
        self._epoch = epoch
        self._rows = [0] * inputs

    def add(self, rows: Sequence[int]) -> None:
        self._rows = [total + more for total, more in zip(self._rows, rows, strict=True)]

    def close(self) -> None:
        rows = ", ".join(map(str, self._rows))
        log.info("epoch %d: `%s` has taken %s rows of its inputs", self._epoch, self._kind, rows)
