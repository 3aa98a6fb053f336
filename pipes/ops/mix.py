"""`mix` and `round_robin`: rows of several pipes in turn, or in given proportions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from ..core.block import Block, has_skipped, parted
from ..core.checks import check_choice
from ..core.code import value_code
from ..core.context import Context
from ..core.cursor import Cursor, Json, check_numbers
from ..core.graph import Node
from ..core.lazy import pa
from ..core.operator import ENDED, Amount, Input, Operator, Order, Past, StageView, Weights, each_row
from ..core.origins import Origins, RowCounts
from ..core.rows import BlockRows, Indices, index_array, take_joined
from ..core.taken import Taken, evenly_spaced
from ..core.times import Clock
from ..errors import ArgumentError, ArgumentTypeError, Origin, UnfitError
from ._measured_turns import MAX_MEASURED, MeasuredOrder, MeasuredStages
from ._schedule import (
    WeightSchedule,
    check_schedule,
    edges_in_words,
    schedule_code,
    stages_from,
    stages_in_shard,
    weights_code,
)
from ._shared import data_error
from ._turns import (
    SHUFFLED_TURNS,
    EqualTurns,
    FixedTurns,
    Ints,
    ShuffledTurns,
    Stretch,
    Turns,
    TurnWindow,
    WeightedTurns,
    check_weights,
    rounded_weights,
    whole_weights,
)
from .batch_by_size import Measure, check_measure, sizes_of
from .repeat import Repeat

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
U = TypeVar("U")

MIN_STRETCH = 32
"""The turns of this many neighbouring rows are computed with those around them."""
WINDOW = 8192
"""Turns that are computed at once."""
FIRST_WINDOW = 128
"""The same after the end of an input, as others may end soon."""


@overload
def mix(
    inputs: Mapping[str, Pipe[T]],
    /,
    *,
    weights: Mapping[str, float] | Mapping[int, Mapping[str, float]] | None = None,
    by: str | Callable[[T], int] | None = None,
    stop: Literal["first", "longest"] = "longest",
    random: bool = False,
    name: str | None = None,
) -> Pipe[T]: ...
@overload
def mix(
    pipe: Pipe[T],
    /,
    *others: Pipe[U],
    weights: Sequence[float] | Mapping[int, Sequence[float]] | None = None,
    by: str | Callable[[T | U], int] | None = None,
    stop: Literal["first", "longest"] = "longest",
    random: bool = False,
    name: str | None = None,
) -> Pipe[T | U]: ...
def mix(
    pipe: Any,
    /,
    *others: Any,
    weights: Any = None,
    by: str | Callable[..., int] | None = None,
    stop: Literal["first", "longest"] = "longest",
    random: bool = False,
    name: str | None = None,
) -> Any:
    """Take rows of this pipe and of `others`, or of pipes by name, in given proportions.

        a b c d e f   and   1 2   ->   mix(weights=[3, 1]): a b 1 c d e 2 f

    Element: those of the inputs; tables stay columns if all have one schema. Order: after i rows of a shard, each input
    has given its part of i, give or take less than two rows. Length: with `stop="longest"` the sum of the inputs',
    else where the rule ends. Indexed if all inputs are. State: a position in each input. Memory: a block of each.
    `explain()` says how many rows come from each, and `Loader.ledger` of named pipes how many have come.

    **Schedule.** `weights={0: [1, 0], 50_000: [1, 1]}` gives other weights from row 50,000 of a pass on. Rows are those
    of the mixture on all ranks together, never steps of a loader; put `mix` after `batch`, and they are batches. Each
    input has given its part of all rows so far, give or take about two rows, so a ramp of a thousand stages is exact
    too. A pipe of weight 0 gives nothing in a stage, unless all pipes that are left have weight 0. With `steps=` of a
    loader the schedule goes on over its epochs, and it begins again with each pass over the data. Of streamed pipes,
    each shard follows the schedule by its part of the rows: the change is sharp to as many elements as there are
    shards, and in the middle of an epoch the number of shards must stay the same.

    **Names.** `fp.mix({"web": web, "code": code}, weights={"web": 0.7, "code": 0.3})` names the pipes. `explain()`,
    reports, errors and the ledger of a loader use the names. The pipes have the order of their names, and random draws
    below a pipe depend on its name, so neither the order of the dict nor the other pipes change its rows.

    **Tokens.** With `by="tokens"`, weights are shares of tokens: of all tokens so far, each input has given its part,
    give or take less than two of the longest rows, and keys of a schedule count tokens. An indexed mixture would have
    to read all rows before one to find it, so with `by` it is streamed; each shard keeps the shares.

    Args:
        others: the pipes to take rows of, besides this one.
        weights: a number for each pipe, this one first; by default all the same. Or a dict that maps the row from which
            on weights hold to these, from row 0 on: a schedule. A pipe of weight 0 gives its rows when all others have
            ended. If pipes have names, numbers are a dict by name.
        by: a column of whole numbers, or of lists, arrays or text, whose lengths count; or a function of a row that
            returns a number. By default weights count rows.
        stop: "longest" leaves out a pipe that has ended, and the others keep their proportions: no row is lost. "first"
            ends with the first pipe that ends; each shard then reads streamed inputs whole, unless no pipe ends. Pipes
            that must begin again get `.repeat()`.
        random: permute the order of the pipes within blocks of 1024 rows, in each epoch in another way.
        name: identifies the operator in the key of its random order, instead of its kind and count.

    Raises:
        ArgumentError: a weight is below 0, all are 0, or there is another number of them, or other names; a schedule
            has no row 0, or more than 65,536 stages; or `random` is given with `by`.
        DataError: in a run, a row has no length for `by`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abcdef").mix(fp.from_sequence([1, 2]), weights=[3, 1]))
        ['a', 'b', 1, 'c', 'd', 'e', 2, 'f']
        >>> "".join(fp.from_sequence("aaaa").mix(fp.from_sequence("bbbb"), weights={0: [1, 0], 2: [1, 2]}))
        'aababbab'
        >>> pipes = {"text": fp.from_sequence("abcdef"), "numbers": fp.from_sequence([1, 2])}
        >>> list(fp.mix(pipes, weights={"text": 3, "numbers": 1}))
        ['a', 'b', 1, 'c', 'd', 'e', 2, 'f']
        >>> list(fp.from_sequence(["aa", "aa"]).mix(fp.from_sequence("bbbb"), by=len))
        ['b', 'aa', 'b', 'b', 'aa', 'b']
    """
    _check_stop(stop)
    if by is not None:
        check_measure("by", by)
        if random:
            raise ArgumentError("`random` must be left out with `by`, because the lengths of rows say whose turn it is")
    names, inputs = _named(pipe, others) if isinstance(pipe, Mapping) else ((), (pipe, *others))
    first, *rest = inputs
    if not isinstance(first, Node):
        raise ArgumentTypeError(f"the inputs of `mix` must be pipes but got: {first!r:.80}")
    shares: Any = weights
    if isinstance(weights, Mapping) and not (names and any(isinstance(key, str) for key in weights)):
        shares = check_schedule(weights, len(inputs), names)
    elif weights is not None:
        shares = check_weights(weights, len(inputs), names)
    kind = Mix if _leaves_out(stop, inputs) else CountedMix
    op = kind(stop, shares=shares, by=by, random=random, name=name, input_names=names)
    return cast("Pipe[Any]", first).then(op, *rest)


def _check_stop(stop: str) -> None:
    if stop == "all":
        raise ArgumentError(
            "`stop` must be 'first' or 'longest' but got: 'all'; give `stop=\"first\"`, and `.repeat()` the inputs "
            "that begin again"
        )
    check_choice("stop", stop, ("first", "longest"))


def _leaves_out(stop: str, inputs: Iterable[object]) -> bool:
    """True if the mixture goes on without an input that has ended, or if none ends."""
    return stop == "longest" or all(map(_never_ends, inputs))


def _never_ends(pipe: object) -> bool:
    """True if a pipe is known to have no end: it is repeated without one, and nothing cuts it off."""
    if not isinstance(pipe, Node):
        return False
    if isinstance(pipe.op, Repeat) and pipe.op.times is None:
        return True
    return bool(pipe.inputs) and pipe.op.order is not Order.GLOBAL and all(map(_never_ends, pipe.inputs))


def _named(pipes: Mapping[Any, Any], others: Sequence[object]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The names of the inputs and the inputs, in the order of the names."""
    if others:
        raise ArgumentTypeError("the inputs of `mix` must be pipes, or one dict of pipes by name, but not both")
    if not pipes:
        raise ArgumentError("the inputs of `mix` must be one pipe at least, but the dict is empty")
    for name in pipes:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"the names of the inputs of `mix` must be strings with a letter but got: {name!r}")
    names = tuple(sorted(pipes))
    return names, tuple(pipes[name] for name in names)


def round_robin(pipe: Pipe[T], /, *others: Pipe[U], stop: Literal["first", "longest"] = "longest") -> Pipe[T | U]:
    """Take one row of this pipe and of each of `others` in turn.

        a b c   and   1 2   ->   round_robin(): a 1 b 2 c

    Element: those of the inputs; tables stay columns if all have one schema. Order: the inputs'. Length: with
    `stop="longest"` the sum of the inputs', else where the rule ends. Indexed if all inputs are. State: a position in
    each input. Memory: a block of each.

    Args:
        others: the pipes whose turns follow this one's.
        stop: "longest" leaves out a pipe that has ended: no row is lost. "first" ends with the first pipe that ends;
            each shard then reads streamed inputs whole, unless no pipe ends. Pipes that must begin again get
            `.repeat()`.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.from_sequence("abc").round_robin(fp.from_sequence([1, 2])))
        ['a', 1, 'b', 2, 'c']
    """
    _check_stop(stop)
    return pipe.then((RoundRobin if _leaves_out(stop, (pipe, *others)) else CountedRoundRobin)(stop), *others)


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Operator, ABC):
    """A token is that of `MixtureRun`.

    The turns of the inputs are in closed form until an input ends. With `stop="longest"`, an input that has ended is
    left out: from its next turn on, the turns of the others start over.
    """

    order: ClassVar[Order] = Order.ROW_LOCAL
    moves_skipped: ClassVar[bool] = True
    edits: ClassVar[Literal["groups", "order"] | None] = "order"
    blind: ClassVar[bool] = True

    stop: str = "longest"
    columnar: bool = field(default=False, repr=False)

    @classmethod
    def past_operator(cls, past: Past) -> Mixture | None:
        """The operator itself, or one with the same turns; None if it is not known."""
        return None

    @classmethod
    def inputs_at(cls, past: Past, at: Cursor) -> list[Json] | None:
        op = cls.past_operator(past)
        if op is None:
            return None
        (position, *_), first, ended, cursors = op.read_token(at.token, past.inputs)
        counts = np.zeros(past.inputs, np.int64)
        if at.skip:  # within a block, so no input ends
            stage = cast("StageView", _PastStage(past))
            sources = op.sources(stage, np.array(ended), first)
            fixed = op.turns(stage, sources, at.row - position)
            turns = op.random_turns(stage, fixed, past.context)
            counts[sources] = _turns_between(turns, fixed, position, position + at.skip, len(sources))
        return [
            ENDED if has_ended else Cursor.of(cursor).advance(count).plain
            for has_ended, cursor, count in zip(ended, cursors, counts.tolist(), strict=True)
        ]

    @classmethod
    def inputs_taken(cls, past: Past, taken: Taken) -> list[Taken] | None:
        op = cls.past_operator(past)
        if op is None or past.lengths is None:
            return None
        layout = MixtureLayout(op.segments(cast("StageView", _PastStage(past)), past.lengths, past.context))
        counts = np.zeros(past.inputs, np.int64)
        while layout.stop < taken.first and (segment := layout.extend()) is not None:
            counts = segment.offsets_before(min(taken.first, segment.stop))
        beyond = np.concatenate([np.zeros(0, np.int64), *(index_array(rows) for rows in taken.beyond)])
        beyond = beyond[beyond < sum(past.lengths)]
        layout.reach(int(beyond.max(initial=-1)) + 1)
        sources, places = layout.at(beyond)
        rows = [evenly_spaced(np.sort(places[sources == n])) for n in range(past.inputs)]
        return [Taken.of(count, own) for count, own in zip(counts.tolist(), rows, strict=True)]

    @property
    def leaves_out(self) -> bool:
        """True if an input that has ended is left out."""
        return self.order is Order.ROW_LOCAL

    @property
    def has_closed_form(self) -> bool:
        """True if the turns do not depend on the rows."""
        return True

    @abstractmethod
    def sources(self, stage: StageView, ended: Ints, first: int) -> Ints:
        """The inputs that have turns now, in the order in which they get them.

        Args:
            ended: 1 for each input that has ended.
            first: the input from which the order begins.
        """

    @abstractmethod
    def turns(self, stage: StageView, sources: Ints, first: int) -> FixedTurns:
        """The turns of these inputs from row `first` on, in an order that is not random."""

    def random_turns(self, stage: StageView, turns: FixedTurns, context: Context, end: int | None = None) -> Turns:
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
        if self.leaves_out:
            return sum(known)
        return next(self.segments(stage, known)).stop if self.has_closed_form else None

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        parts = [weights for source in stage.inputs if (weights := source.weights(context)) is not None]
        if not self.leaves_out or len(parts) < len(stage.inputs) or len({part.are_rows for part in parts}) > 1:
            return None
        if not each_row(parts):
            return None
        values = np.concatenate([part.values for part in parts])
        firsts = np.cumsum([0, *(len(part.values) for part in parts)])
        sources, rows = self._layout(stage, context, len(values)).at(range(len(values)))
        return Weights(values[firsts[sources] + rows], parts[0].are_rows)

    def trace(self, stage: StageView, index: int, context: Context) -> Iterator[tuple[Input, int, Context]]:
        (source,), (row,) = self._layout(stage, context, index + 1).at(np.array([index]))
        yield stage.inputs[int(source)], int(row), context

    def traced(
        self, stage: StageView, indices: Indices, context: Context
    ) -> Iterator[tuple[int, Indices, Indices | None, Context]]:
        sources, rows = self._at(stage, indices, context)
        for source in np.unique(sources).tolist():
            places = np.flatnonzero(sources == source)
            yield source, rows[places], places, context

    def inputs_of(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self._at(stage, indices, context)[0]

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if not len(indices):
            return self.held(stage.inputs[0].rows(range(0), context))
        sources, rows = self._at(stage, indices, context)
        stretch = Stretch.of(sources)
        in_order = np.empty_like(rows)
        in_order[stretch.places] = rows
        edges = [0, *np.cumsum(stretch.counts).tolist()]
        parts: list[BlockRows] = []
        for source, (start, stop) in zip(stretch.sources.tolist(), pairwise(edges), strict=True):
            own: Indices = in_order[start:stop]
            if isinstance(indices, range) and indices.step == 1:  # neighbours, so that storage can slice
                own = range(int(in_order[start]), int(in_order[start]) + stop - start)
            parts.append(self.held(stage.inputs[source].rows(own, context)))
        return parts[0] if len(parts) == 1 else take_joined(parts, stretch.places)[0]

    def held(self, rows: BlockRows) -> BlockRows:
        """Rows of an input as those of the mixture are held."""
        return rows if self.columnar or isinstance(rows, list) else list(rows)

    def _at(self, stage: StageView, indices: Indices, context: Context) -> tuple[Ints, Ints]:
        """The input of each row at `indices`, and its number in that input."""
        is_range = isinstance(indices, range) and indices.step == 1
        last = indices[-1] if is_range and len(indices) else np.max(index_array(indices), initial=-1)
        return self._layout(stage, context, int(last) + 1).at(indices)

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        _, _, ended, cursors = self.read_token(at.token, len(stage.inputs))
        amounts: list[Amount] = []
        for source, has_ended, plain in zip(stage.inputs, ended, cursors, strict=True):
            amount = source.amount_before(plain, context)
            if amount is not None:
                amounts.append(amount._replace(done=amount.total) if has_ended else amount)
        if self.stop == "first":
            return max(amounts, key=lambda amount: amount.fraction, default=None)
        return Amount.sum(amounts) if amounts else None

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        position, first, ended, cursors = self.read_token(at.token, len(stage.inputs))
        check_numbers(*position, first, *ended)
        yield from zip(stage.inputs, cursors, strict=True)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return MixtureRun(self, stage, at, context).blocks()

    def read_token(self, token: Json, inputs: int) -> tuple[list[int], int, list[int], list[Json]]:
        """The place among the turns, the input from which their order begins, 1 for inputs that ended, and cursors."""
        start = [0, 0, [0] * inputs, [None] * inputs]
        position, first, ended, cursors = cast("tuple[int, int, list[int], list[Json]]", token or start)
        return [position], first, ended, cursors

    def _layout(self, stage: StageView, context: Context, stop: int) -> MixtureLayout:
        """The layout with all segments of the first `stop` rows."""
        drawn = (context.seed, context.epoch, context.rounds, context.shard) if self.reshuffles() else ()

        def make() -> MixtureLayout:
            lengths = [source.length or 0 for source in stage.inputs]
            return MixtureLayout(self.segments(stage, lengths, context if drawn else None))

        layout = stage.memo(("mixture", *drawn), make)
        layout.reach(stop)
        return layout

    def segments(
        self, stage: StageView, lengths: Sequence[int], context: Context | None = None
    ) -> Iterator[MixtureSegment]:
        """The rows between the ends of inputs of these lengths; without a context, in an order that is not random.

        There is one segment at least.
        """
        rows, start, first = np.array(lengths), 0, 0
        offsets, ended = np.zeros((2, len(rows)), np.int64)
        while len(sources := self.sources(stage, ended, first)):
            fixed = self.turns(stage, sources, start)
            length = fixed.first_end(rows[sources] - offsets[sources])
            turns = fixed if context is None else self.random_turns(stage, fixed, context, length)
            segment = MixtureSegment(start, start + length, sources, offsets, fixed, turns)
            last = int(sources[fixed.at(range(length, length + 1))[0][0]])
            start, first, offsets, ended = segment.stop, last + 1, segment.offsets_before(segment.stop), ended.copy()
            ended[last] = 1
            yield segment
            if not self.leaves_out:
                return

    def rows_in_words(self, rows: Sequence[int]) -> str:
        """The rows of all inputs: "30, 12 rows of its inputs", or by name."""
        if not self.input_names:
            return f"{', '.join(map(str, rows))} rows of its inputs"
        first, *others = (f"{count} {{}}of {name!r}" for name, count in zip(self.input_names, rows, strict=True))
        return ", ".join([first.format("rows "), *(other.format("") for other in others)])

    def contributions(self, stage: StageView) -> str | None:
        """The number of rows that each input gives, if it is known."""
        lengths = [source.length for source in stage.inputs]
        if None in lengths or not self.has_closed_form:
            return None
        first, *others = self.segments(stage, cast("list[int]", lengths))
        last = others[-1] if others else first
        text = f"takes {self.rows_in_words(last.offsets_before(last.stop).tolist())}"
        if first.stop < last.stop:
            text += f"; the first to end does so after {first.stop} rows, and the others go on"
        return text


@dataclass(frozen=True, eq=False, repr=False)
class Mix(Mixture):
    kind: ClassVar[str] = "mix"

    shares: Any = field(default=None, kw_only=True)  # `Operator.weights` has the name of the argument
    by: Measure | None = field(default=None, kw_only=True)
    random: bool = field(default=False, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    input_names: tuple[str, ...] = field(default=(), kw_only=True, repr=False)

    def identity(self) -> Json:
        facts: dict[str, Json] = {"inputs": list(self.input_names)} if self.input_names else {}
        if isinstance(self.shares, Mapping):
            facts["shares"] = {str(row): list(shares) for row, shares in self.shares.items()}
        elif isinstance(self.shares, tuple):
            facts["shares"] = list(self.shares)
        return facts or None

    @classmethod
    def past_operator(cls, past: Past) -> Mix | None:
        if cls is not Mix or "stop" in past.facts or "by" in past.facts:
            return None
        shares: Any = past.facts.get("shares")
        if isinstance(shares, str):
            return None  # a digest
        if isinstance(shares, dict):
            shares = {int(row): values for row, values in shares.items()}
        mix = Mix(shares=shares, random=past.facts.get("random") == "True")
        return mix.in_shard(past.shards).from_row(past.given)

    def call(self) -> str:
        shares = self.shares
        codes = [] if shares is None else [f"weights={_shares_code(shares, self.input_names)}"]
        codes += [f"by={value_code(self.by)}"] if self.by is not None else []
        codes += [f"stop={self.stop!r}"] if self.stop != "longest" else []
        codes += ["random=True"] if self.random else []
        codes += [f"name={self.name!r}"] if self.name is not None else []
        return f"mix({', '.join(codes)})"

    @property
    def has_closed_form(self) -> bool:
        return self.by is None

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return self.by is None and super().indexed(inputs)

    def reshuffles(self) -> bool:
        return self.random

    def length(self, stage: StageView) -> int | None:
        in_order = not self.random or self.leaves_out or all(source.indexed for source in stage.inputs)
        return super().length(stage) if in_order else None

    def remark(self, stage: StageView) -> str | None:
        remarks = [self.contributions(stage)]
        if isinstance(self.shares, Mapping) and len(self.shares) > 1:
            edges = edges_in_words(self.shares, "row" if self.by is None else "token")
            remarks.append(f"its weights change at {edges} of each pass, on all ranks together")
        return "; ".join(filter(None, remarks)) or None

    def in_shard(self, shards: int) -> Mix:
        if not isinstance(self.shares, Mapping):
            return self
        return replace(self, shares=stages_in_shard(self.shares, shards))

    def from_row(self, row: int) -> Mix | None:
        if not isinstance(self.shares, Mapping):
            return self
        return replace(self, shares=stages_from(self.shares, row)) if self.by is None else None

    def sources(self, stage: StageView, ended: Ints, first: int) -> Ints:
        if isinstance(self.shares, Mapping):
            return np.flatnonzero(ended == 0) if self.leaves_out else self._schedule(stage).weighted()
        weights = self._weights(stage)
        if not self.leaves_out:
            return np.flatnonzero(weights)
        chosen = np.flatnonzero((ended == 0) & (weights > 0))
        return chosen if len(chosen) else np.flatnonzero(ended == 0)

    def turns(self, stage: StageView, sources: Ints, first: int) -> FixedTurns:
        if isinstance(self.shares, Mapping):
            return self._schedule(stage).turns(sources, first)
        return WeightedTurns(rounded_weights(np.maximum(self._weights(stage)[sources], 1)))

    def random_turns(self, stage: StageView, turns: FixedTurns, context: Context, end: int | None = None) -> Turns:
        if not self.random:
            return turns
        return ShuffledTurns(turns, context.key(stage.name), math.inf if end is None else end)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        return super().blocks(stage, at, context) if self.by is None else MeasuredRun(self, stage, at, context).blocks()

    def read_token(self, token: Json, inputs: int) -> tuple[list[int], int, list[int], list[Json]]:
        if self.by is None:
            return super().read_token(token, inputs)
        start = [[0] * (2 * inputs), 0, [0] * inputs, [None] * inputs]
        tokens, first, ended, cursors = cast("tuple[list[int], int, list[int], list[Json]]", token or start)
        if len(tokens) != 2 * inputs:
            raise ValueError("has no tokens of each input")
        return tokens, first, ended, cursors

    def measured(self, stage: StageView, sources: Ints, first: int) -> MeasuredStages:
        """The stages of these inputs, by the tokens that they give from token `first` on."""
        if isinstance(self.shares, Mapping):
            return MeasuredStages(*self._schedule(stage).stages(sources, first, MAX_MEASURED))
        rounded = rounded_weights(np.maximum(self._weights(stage)[sources], 1), MAX_MEASURED)
        return MeasuredStages(np.zeros(1, np.int64), rounded[None, :])

    def _schedule(self, stage: StageView) -> WeightSchedule:
        return stage.memo("schedule", lambda: WeightSchedule(self.shares))

    def _weights(self, stage: StageView) -> npt.NDArray[Any]:
        """The weights of all inputs as whole numbers."""
        return stage.memo("weights", lambda: whole_weights(self.shares or [1] * len(stage.inputs)))


@dataclass(frozen=True, eq=False, repr=False)
class CountedMix(Mix):
    """Ends by the number of rows of all shards."""

    order: ClassVar[Order] = Order.GLOBAL


@dataclass(frozen=True, eq=False, repr=False)
class RoundRobin(Mixture):
    kind: ClassVar[str] = "round_robin"

    @classmethod
    def past_operator(cls, past: Past) -> RoundRobin | None:
        return RoundRobin() if cls is RoundRobin and "stop" not in past.facts else None

    def sources(self, stage: StageView, ended: Ints, first: int) -> Ints:
        order = np.roll(np.arange(len(ended)), -first)
        return order[ended[order] == 0] if self.leaves_out else order

    def turns(self, stage: StageView, sources: Ints, first: int) -> FixedTurns:
        return EqualTurns(len(sources))


@dataclass(frozen=True, eq=False, repr=False)
class CountedRoundRobin(RoundRobin):
    """Ends by the number of rows of all shards."""

    order: ClassVar[Order] = Order.GLOBAL


def _shares_code(shares: Any, names: Sequence[str]) -> str:
    return schedule_code(shares, names) if isinstance(shares, Mapping) else weights_code(shares, names)


def _common_schema(stage: StageView) -> pa.Schema | None:
    """The schema that all inputs share, if they do; their rows then stay columns.

    Otherwise all rows become Python rows: the type of a row must not depend on the ends of blocks.
    """
    first, *others = (source.schema for source in stage.inputs)
    if first is None or any(schema is None or not schema.equals(first) for schema in others):
        return None
    return first


# Indexed inputs: the layout of a mixture.


@dataclass(frozen=True)
class MixtureSegment:
    """The rows from the end of one input to that of the next.

    Attributes:
        start, stop: the positions of these rows.
        sources: the inputs that they come from, by their number among the turns.
        offsets: the rows that each input has given before them.
        fixed, turns: the turns from `start` on, before and after they are shuffled.
    """

    start: int
    stop: int
    sources: Ints
    offsets: Ints
    fixed: FixedTurns
    turns: Turns

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        """The input of the row at each position from `start` on, and the number of the row in it."""
        sources, turns = self.turns.at(positions)
        own = self.sources[sources]
        return own, self.offsets[own] + turns

    def offsets_before(self, position: int) -> Ints:
        """The rows that each input has given before a position."""
        offsets = self.offsets.copy()
        stop, end = position - self.start, self.stop - self.start
        offsets[self.sources] += _turns_between(self.turns, self.fixed, 0, stop, len(self.sources), end)
        return offsets


class MixtureLayout:
    """The input of each row of a mixture, and its number there, for as many rows as somebody has asked for.

    Segments are computed when they are needed: there are as many as inputs, and each takes time and memory.
    """

    def __init__(self, segments: Iterator[MixtureSegment]) -> None:
        self.stop = 0  # of the last segment that was added
        self._rest = segments
        self._lock = Lock()
        self._starts: list[int] = []  # of the segments, which are not empty
        self._segments: list[tuple[int, Turns]] = []  # their lengths, and the input and the row at each position
        self._window: tuple[int, TurnWindow] | None = None  # the one used last, and its segment

    def reach(self, stop: int) -> None:
        """Add the segments of the first `stop` rows."""
        if self.stop < stop:
            with self._lock:
                while self.stop < stop and self.extend() is not None:
                    pass

    def extend(self) -> MixtureSegment | None:
        """Add the next segment and return it; None if there is none."""
        segment = next(self._rest, None)
        if segment is not None and (length := segment.stop - segment.start):
            rows: Turns = segment
            if length < len(segment.sources):
                rows = TurnWindow(segment, 0, length)  # takes less memory
            self._starts.append(segment.start)
            self._segments.append((length, rows))
            self.stop = segment.stop  # last: another thread may read the layout meanwhile
        return segment

    def at(self, positions: Indices) -> tuple[Ints, Ints]:
        """The input of the row at each position, and the number of the row in it."""
        if isinstance(positions, range) and positions.step == 1 and len(positions) >= MIN_STRETCH:
            parts = list(self._neighbours(positions))
            sources, rows = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
            return sources, rows
        places = index_array(positions)
        if len(self._segments) == 1:
            return self._segments[0][1].at(places)
        numbers = np.searchsorted(self._starts, places, "right") - 1
        sources, rows = np.empty((2, len(places)), np.int64)
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            sources[inside], rows[inside] = self._segments[number][1].at(places[inside] - self._starts[number])
        return sources, rows

    def _neighbours(self, positions: range) -> Iterator[tuple[Ints, Ints]]:
        """As `at`, for a stretch of one segment after the other."""
        start = positions.start
        while start < positions.stop:
            number = bisect_right(self._starts, start) - 1
            first = self._starts[number]
            window = self._window_at(number, start - first)
            stop = min(positions.stop, first + window.stop)
            yield window.at(range(start - first, stop - first))
            start = stop

    def _window_at(self, number: int, position: int) -> TurnWindow:
        last = self._window
        if last is not None and last[0] == number and last[1].start <= position < last[1].stop:
            return last[1]
        length, segment = self._segments[number]
        start = position - position % WINDOW
        window = TurnWindow(segment, start, min(start + WINDOW, length))
        self._window = number, window
        return window


class _PastStage:
    """The view of a mixture that a pipe no longer has: its name, and the number of its inputs."""

    def __init__(self, past: Past) -> None:
        self.name = past.name
        self.inputs = range(past.inputs)

    def memo(self, key: object, make: Callable[[], Any]) -> Any:
        return make()


def _turns_between(turns: Turns, fixed: FixedTurns, start: int, stop: int, inputs: int, end: float = math.inf) -> Ints:
    """The number of turns of each input from `start` to `stop`, which are `fixed` if they are not random.

    Random turns are those of `fixed` in each block of them, and up to `end`.
    """
    if turns is fixed or (not start and stop == end):
        return fixed.counts(stop) - fixed.counts(start)
    first, last = -(-start // SHUFFLED_TURNS) * SHUFFLED_TURNS, stop // SHUFFLED_TURNS * SHUFFLED_TURNS
    ends = [(start, stop)] if first >= last else [(start, first), (last, stop)]
    counts = sum(np.bincount(turns.at(range(*part))[0], minlength=inputs) for part in ends if part[0] < part[1])
    whole = fixed.counts(last) - fixed.counts(first) if first < last else np.zeros(inputs, np.int64)
    return whole + counts


# Streamed inputs: a run of a mixture.


class MixtureRun:
    """One run.

    A token is [position among the turns, input from which their order begins, 1 for each input that has ended,
    cursors]. A block of an input is read when the input has a turn and no rows are left of its last block. A block of
    the mixture has as many rows as the blocks at hand give.
    """

    def __init__(self, op: Mixture, stage: StageView, at: Cursor, context: Context) -> None:
        count = len(stage.inputs)
        (self._position, *_), self._first, ended, cursors = op.read_token(at.token, count)
        self._op = op
        self._stage = stage
        self._context = context.part()
        self._row = at.row
        # A token that was given does not change: these lists are replaced.
        self._ended = list(ended)
        self._cursors = list(cursors)
        self._readers = [self._reader(source) for source in range(count)]
        self._rows_left = np.zeros(count, np.int64)  # of the block of each input that was read last
        self._block_size = context.block_size()

    def blocks(self) -> Iterator[Block]:
        op = self._op
        try:
            while len(sources := op.sources(self._stage, np.array(self._ended), self._first)):
                ended = yield from self._until_an_end(sources)
                if not op.leaves_out:
                    return
                self._leave_out(ended)
        finally:
            self._context.running.close()

    def _leave_out(self, source: int) -> None:
        """Go on without an input that has ended: the turns of the others begin."""
        self._ended = [*self._ended]
        self._cursors = [*self._cursors]
        self._ended[source], self._cursors[source] = 1, None
        self._position, self._first = 0, source + 1

    def _reader(self, source: int) -> _MixedInput:
        context, clock = self._context.with_own_clock()
        at = Cursor.of(self._cursors[source])
        return _MixedInput(self._stage.inputs[source].blocks(at, context), at, clock)

    def _until_an_end(self, sources: Ints) -> Generator[Block, None, int]:
        """The rows up to the turn of an input that has ended. Return the number of that input."""
        fixed = self._op.turns(self._stage, sources, self._row - self._position)
        turns = self._op.random_turns(self._stage, fixed, self._context)
        size = FIRST_WINDOW
        window = TurnWindow(turns, self._position, self._position + size)
        ends = self._rows_left[sources]  # the first turn of each input for which there is no row at hand
        at = Cursor(self._token(), 0, self._row)
        while True:
            if self._position == window.stop:
                size = min(WINDOW, 4 * size)
                window = TurnWindow(turns, self._position, self._position + size)
            number, turn = window.turn(self._position)
            source = int(sources[number])
            if not self._rows_left[source]:
                rows = self._readers[source].read()
                if not rows:
                    return source
                self._rows_left[source] = rows
                ends[number] = turn + rows
                if self._moved_on(source):
                    at = Cursor(self._token(), 0, self._row)
            stop = min(self._position + self._block_size.rows(), window.stop)
            stop = window.first_missing(self._position + 1, stop, ends)
            output = [self._mixed(at, sources, Stretch.of(window.at(range(self._position, stop))[0]))]
            at = output[0].end
            self._block_size.produced(output[0].rows)
            yield output.pop()

    def _moved_on(self, source: int) -> bool:
        """Note where the block of an input begins that was read last; return whether that is not where it had ended.

        A cursor of the mixture skips rows from there, and between two blocks an input of the input may have ended.
        """
        begins = self._readers[source].begins
        if begins == Cursor.of(self._cursors[source]):
            return False
        self._cursors = [*self._cursors]
        self._cursors[source] = begins.plain
        return True

    def _mixed(self, at: Cursor, sources: Ints, stretch: Stretch, sizes: Ints | None = None) -> Block:
        """The rows of the next turns, which are at hand."""
        inputs, counts, places = sources[stretch.sources], stretch.counts, stretch.places
        parts: list[BlockRows] = []
        origins: list[Origins | None] = []
        self._cursors = [*self._cursors]
        for source, count in zip(inputs.tolist(), counts.tolist(), strict=True):
            rows, own, self._cursors[source] = self._readers[source].take(count)
            parts.append(self._op.held(rows))
            origins.append(own)
        self._rows_left[inputs] -= counts
        self._position += len(places)
        self._row += len(places)
        mixed = parts[0] if len(parts) == 1 else take_joined(parts, places)[0]
        end = Cursor(self._token(), 0, self._row)
        return Block(mixed, at, end, self._origins(inputs, origins, counts, places, sizes))

    def _origins(
        self, inputs: Ints, parts: list[Origins | None], rows: Ints, places: Ints, sizes: Ints | None
    ) -> Origins | None:
        """The origins of rows of these inputs, so many of each, which are at these places of the parts."""
        names = self._op.input_names
        if not (names and self._context.tracing.counts):
            origins = Origins.joined([*zip(parts, rows.tolist(), strict=True)])
            return origins and origins.select(places)
        known = [part or Origins() for part in parts]
        below = [own.counts and own.counts.below(names[k]) for own, k in zip(known, inputs.tolist(), strict=True)]
        inner = RowCounts.joined([*zip(below, rows.tolist(), strict=True)])
        counts = RowCounts.of_inputs(names, np.repeat(inputs, rows)[places], inner and inner.select(places), sizes)
        origins = Origins.joined([(Origins.of(own.rows), n) for own, n in zip(known, rows.tolist(), strict=True)])
        return Origins(None if origins is None else origins.select(places).rows, counts)

    def _token(self) -> Json:
        return [self._position, self._first, self._ended, self._cursors]


class MeasuredRun(MixtureRun):
    """One run of a mixture by size.

    A token has, in place of the position among the turns, the tokens that each input has given, and those that it had
    given when these turns began. The next row of each input has to be known, because its length counts.
    """

    def __init__(self, op: Mix, stage: StageView, at: Cursor, context: Context) -> None:
        super().__init__(op, stage, at, context)
        count = len(stage.inputs)
        tokens = op.read_token(at.token, count)[0]
        self._mix = op
        self._tokens, self._begun = tokens[:count], tokens[count:]
        self._sizes = [np.zeros(0, np.int64)] * count  # of the rows at hand
        self._read_whole: set[int] = set()  # inputs without a further row

    def _leave_out(self, source: int) -> None:
        super()._leave_out(source)
        self._begun = self._tokens

    def _until_an_end(self, sources: Ints) -> Generator[Block, None, int]:
        begun = sum(self._begun)
        stages = self._mix.measured(self._stage, sources, begun)
        at = Cursor(self._token(), 0, self._row)
        while True:
            stage = stages.at(sum(self._tokens) - begun)
            inputs: list[int] = sources[stage.inputs].tolist()
            given = [self._tokens[source] - self._begun[source] for source in inputs]
            order = stage.order(given, [self._sizes[source] for source in inputs], WINDOW)
            start, stop = 0, len(order.inputs)
            while start < stop:
                end = min(stop, start + self._block_size.rows())
                output = [self._measured(at, np.array(inputs), order, start, end)]
                start, at = end, output[0].end
                self._block_size.produced(output[0].rows)
                yield output.pop()
            for number in order.missing:
                source = inputs[number]
                if not self._sizes[source].size and source not in self._read_whole:
                    self._read(source)
                elif number == order.missing[0] and source in self._read_whole:
                    return source

    def _read(self, source: int) -> None:
        """Read the next block of an input, and the lengths of its rows."""
        reader = self._readers[source]
        if not reader.rest and not reader.read():
            self._read_whole.add(source)
            return
        sizes, error = _whole_sizes(reader.rest, cast("Measure", self._mix.by))
        if error is not None and not len(sizes):
            at = Cursor.of(self._cursors[source])
            raise data_error(
                self._mix, self._stage.failed_on(error, _origin(self._stage.inputs[source], at, self._context))
            )
        self._sizes[source] = sizes
        self._rows_left[source] = len(sizes)

    def _measured(self, at: Cursor, inputs: Ints, order: MeasuredOrder, start: int, stop: int) -> Block:
        """The rows of the next turns, which are at hand."""
        sources, places = inputs[order.inputs[start:stop]], order.places[start:stop]
        count = len(self._sizes)
        counts = np.bincount(sources, minlength=count)
        present = np.flatnonzero(counts)
        firsts = np.zeros(count, np.int64)
        firsts[sources[::-1]] = places[::-1]  # the last value that is assigned remains
        self._tokens = [*self._tokens]
        sizes: list[Ints] = []
        for source, rows in zip(present.tolist(), counts[present].tolist(), strict=True):
            sizes.append(self._sizes[source][:rows])
            self._tokens[source] += int(sizes[-1].sum())
            self._sizes[source] = self._sizes[source][rows:]
        places = places + (np.cumsum(counts) - counts - firsts)[sources]
        stretch = Stretch(present, counts[present], places)
        return self._mixed(at, np.arange(count), stretch, np.concatenate(sizes)[places])

    def _token(self) -> Json:
        return [[*self._tokens, *self._begun], self._first, self._ended, self._cursors]


def _whole_sizes(rows: BlockRows, by: Measure) -> tuple[Ints, Exception | None]:
    """The sizes of the rows before the first that has none, and its error; rows that were skipped have none."""
    skipped = parted(rows) if has_skipped(rows) else None
    sizes, error = sizes_of(rows if skipped is None else skipped.values, by, "by")
    with np.errstate(invalid="ignore"):
        whole = sizes.astype(np.int64)
    broken = np.flatnonzero(whole != sizes)
    if len(broken):
        first = int(broken[0])
        whole, error = whole[:first], UnfitError(f"`by` must give whole numbers but gave: {sizes[first]}")
    if skipped is None:
        return whole, error
    stop = skipped.places[len(whole)] if len(whole) < len(skipped.places) else skipped.total
    all_sizes = np.zeros(stop, np.int64)
    all_sizes[skipped.places[: len(whole)]] = whole
    return all_sizes, error


def _origin(source: Input, at: Cursor, context: Context) -> Origin | None:
    """The origin of the row of an input at a cursor."""
    with closing(context.replay()) as replay:
        block = next(source.blocks(at, replay), None)
    return block.origins[0] if block and block.origins else None


class _MixedInput:
    """A reader of one input.

    Attributes:
        begins: where the block begins that was read last.
    """

    def __init__(self, blocks: Iterator[Block], at: Cursor, clock: Clock) -> None:
        self.begins = at
        self._blocks = blocks
        self._clock = clock
        self._block: Block | None = None  # that was read last, if rows of it are left
        self._taken = 0

    def read(self) -> int:
        """Read the next block and return the number of its rows, which is 0 at the end."""
        self._block, self._taken = self._clock.next(self._blocks), 0
        if self._block is None:
            return 0
        self.begins = self._block.at
        return len(self._block)

    @property
    def rest(self) -> BlockRows:
        """The rows at hand."""
        block = self._block
        return [] if block is None else block.rows[self._taken :] if self._taken else block.rows

    def take(self, count: int) -> tuple[BlockRows, Origins | None, Json]:
        """The next `count` rows, which are in one block; their origins, and the plain cursor after them."""
        block = self._block
        assert block is not None, "only rows at hand are taken"
        start = self._taken
        stop = self._taken = start + count
        token, skip, row = block.at
        end: Json = [token, skip + stop, row]
        if stop == len(block.rows):
            self._block = None
            end = block.end.plain
            if not start:
                return block.rows, block.origins, end
        return block.rows[start:stop], block.origins and block.origins[start:stop], end
