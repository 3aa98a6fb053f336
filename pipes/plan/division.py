"""`Division`: the units that each shard reads, as runs; `GranuleDivision`: of units that are dealt in granules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np

from ..core.block import row_width
from ..core.context import Context, RowShare
from ..core.graph import Node
from ..core.operator import Source, StageView, Trait, Weights, each_row, fill_unknown
from ..core.rows import BlockRows, Indices, index_array
from ..engine.seeds import Permutation
from ..engine.stage import Stage
from .divide import MAX_SLOTS, SLOTS_PER_SHARE, Numbers, divide, step_of
from .shards import PlacedShard, rows_at

MAX_SKEW = 16
"""Shards read a unit together if they reach it within this part of a share: what one of them has not asked for yet is
kept for it."""
MAX_KEPT_BYTES = 2**25
"""A unit of rows of fixed size that takes no more in memory is read together whenever they reach it."""
SPANS, MAX_SPAN_BYTES, MAX_SPAN_ROWS = 64, 2**23, 2**14
"""A span of a shard in source order has a 64th of its units, at most 8 MiB or 16,384 rows, and at least one unit: the
workers of the shard make spans in turn, and hold the rows of one each."""


class SharedUnit(NamedTuple):
    """A unit whose rows several shards divide.

    Attributes:
        part: its part of the input.
        shards: the shards.
        reached: the work of each of them before it.
        near: shards of one process read the unit together if their work before it differs by no more than this.
    """

    part: float
    shards: Sequence[int]
    reached: Sequence[int]
    near: int

    def reads(self, processes: int) -> int:
        """The number of times that it is read."""
        reads, last = 0, (-1, 0)  # process and work before it, at the first shard of a read
        for process, reached in sorted(
            (s % processes, work) for s, work in zip(self.shards, self.reached, strict=True)
        ):
            if process != last[0] or reached - last[1] > self.near:
                reads, last = reads + 1, (process, reached)
        return reads


class SharedRead(NamedTuple):
    """An input that several shards read.

    Attributes:
        reason: why its rows are not divided.
        by_rank: one process reads it for all workers of a rank.
        repair: the advice to read less, if all shards read all of the input.
        can_dispatch: `dispatch()` would let one process of each rank read it.
        units: the units that several shards read; None if all shards read all of the input.
        size: the bytes of the files of the input, if they are known.
    """

    reason: str
    by_rank: bool = False
    repair: str = ""
    can_dispatch: bool = False
    units: Sequence[SharedUnit] | None = None
    size: int | None = None

    def times(self, world_size: int, workers: int) -> int:
        """The number of times that the same rows are read, at most."""
        processes = self._processes(world_size, workers)
        return processes if self.units is None else max(unit.reads(processes) for unit in self.units)

    def repeated(self, world_size: int, workers: int) -> float:
        """The part of the input that is read again; it may be above 1."""
        processes = self._processes(world_size, workers)
        if self.units is None:
            return processes - 1.0
        return sum(unit.part * (unit.reads(processes) - 1) for unit in self.units)

    def _processes(self, world_size: int, workers: int) -> int:
        return world_size * (1 if self.by_rank else max(1, workers))


def division_of(
    rows: Stage, shards: int, ranks: int, context: Context, *, any_order: bool, near: int, in_order: bool = False
) -> Division:
    """The division of the units that `rows` are made of, in the pass and the round of `context`."""
    weights = units_of(rows).weights(context.unsharded())
    kind = Division if weights is None or weights.granule == 1 else GranuleDivision
    return kind(rows, weights, shards, ranks, context, any_order=any_order, near=near, in_order=in_order)


class Division:
    """The division of the units of one operator among the shards, in one round of one pass over the data.

    Attributes:
        pieces: those of each shard.
        weights: of the units by place.
        rows: of the units by place, if the weights are numbers of rows; below 0 if unknown.
        permutation: the units by place; None for the order of the source.
    """

    def __init__(
        self,
        rows: Stage,
        weights: Weights | None,
        shards: int,
        ranks: int,
        context: Context,
        *,
        any_order: bool,
        near: int,
        in_order: bool,
    ) -> None:
        self._units = units_of(rows)
        self._rows_op = rows.op
        # Without the stages themselves: `rows` keeps this object, and two that refer to each other are freed late.
        self._steps = [(stage.node, stage.name) for stage in _path(self._units, rows)]
        count = (self._units.length or 0) if weights is None else len(weights.values)
        whole = context.unsharded()
        self.permutation = Permutation(whole.key(f"shuffle of {self._units.name}"), count) if any_order else None
        self.rows: Numbers | None = None
        self._row_bytes = row_width(rows.schema)
        if weights is None:
            self.weights: Numbers = np.broadcast_to(np.int64(1), count)  # takes no memory
        else:
            by_place = slice(None) if self.permutation is None else self.permutation[range(count)]
            values = weights.values[by_place]
            self.weights = fill_unknown(values)
            self.rows = values if weights.are_rows else None
        self.pieces = divide(self.weights, shards, ranks, any_order=any_order, near=near)
        # An operator such as `interleave` makes rows of several units at a time.
        self.has_spans = in_order and not any(node.op.needs_positions for node, _ in self._steps)
        self._shared: dict[int, Stage] = {}
        # Of granules: the units of each, and what tells their weights.
        self._granule = 1 if weights is None else weights.granule
        self._each = None if self._granule == 1 or weights is None else weights.each
        self._pass = Context(seed=context.seed, epoch=context.epoch, rounds=context.rounds)

    def weights_of(self, shard: int) -> Numbers:
        """The weights of the pieces of a shard, in their order."""
        rounds, shards, table = self.pieces.rounds, self.pieces.shards, self.pieces.of_shard(shard)
        parts = self.weights[table.places] * (table.stop - table.first) // table.slots
        return np.concatenate([self.weights[shard : rounds * shards : shards], parts])

    @property
    def knows_rows(self) -> bool:
        """Whether all units know their rows."""
        return self.rows is not None and not (self.rows < 0).any()

    def lengths(self) -> Numbers:
        """The number of rows of each shard; all units know theirs."""
        assert self.rows is not None, "the units know their rows"
        return self.pieces.lengths(self.rows, self._rows_of_pieces())

    def _rows_of_pieces(self) -> Numbers:
        """The number of rows of each piece of the table."""
        assert self.rows is not None, "the units know their rows"
        return self.pieces.rows(self.rows)

    def runs(self, shard: int, at: int = 0) -> Iterator[PieceRun]:
        """The parts of a shard that are read together, in order.

        Args:
            shard: its number.
            at: the number of the first one that is needed; some before it may be left out. A run in source order may
                begin at any place.
        """
        for part in self._parts_of(shard):
            if part.stop > at:
                yield self._run(shard, part, max(part.first, at) if self.has_spans else part.first, part.stop)

    def spans(self, shard: int, at: int, units: int) -> Iterator[PieceRun]:
        """Short runs of a shard in source order; the first has unit `units` of run `at`."""
        ends = np.cumsum(self.weights_of(shard))
        limit = MAX_SPAN_BYTES if self.rows is None else MAX_SPAN_ROWS
        most = max(1, min(limit, int(ends[-1]) // SPANS)) if len(ends) else 1
        for part in self._parts_of(shard):
            if part.stop <= at:
                continue
            begin, place = max(part.first, at), part.first
            while place < part.stop:
                before = int(ends[place - 1]) if place else 0
                place = min(part.stop, max(place + 1, int(np.searchsorted(ends, before + most, "right"))))
                if place > max(at + units, begin):
                    yield self._run(shard, part, begin, place)
                    begin = place

    def _parts_of(self, shard: int) -> Iterator[_Part]:
        """The pieces of a shard that are read together, by their places in it."""
        rounds, table = self.pieces.rounds, self.pieces.of_shard(shard)
        if rounds:
            yield _Part(0, rounds, {})
        for part in self._parts(table.places, table.shares()):
            yield part._replace(first=rounds + part.first, stop=rounds + part.stop)

    def _run(self, shard: int, part: _Part, first: int, stop: int) -> PieceRun:
        """The run of a part, or of the places [first, stop) of it."""
        rounds, shards = self.pieces.rounds, self.pieces.shards
        if first < rounds:
            in_rounds = range(shard, shard + rounds * shards, shards)
            return PieceRun(first, first, stop, self._expanded(in_rounds[first:stop], {}))
        places = self.pieces.of_shard(shard).places[first - rounds : stop - rounds]
        if part.share is not None:
            place = int(places[0])
            return PieceRun(first, first, stop, self._shared_stage(place), place, part.share)
        cut = {at + part.first - first: share for at, share in part.cut.items() if first <= at + part.first < stop}
        return PieceRun(first, first, stop, self._expanded(places, cut))

    def _parts(self, places: Numbers, shares: Sequence[RowShare]) -> Iterator[_Part]:
        """Pieces that are read together: whole units and parts that are cut off, or one unit that shards share."""
        first = 0
        cut: dict[int, RowShare] = {}  # of the pieces from `first` on
        for index, share in enumerate(shares):
            if share.slots == 1 or self._can_cut(int(places[index]), share):
                if share.slots > 1:
                    cut[index - first] = share
                continue
            if first < index:
                yield _Part(first, index, cut)
            yield _Part(index, index + 1, {}, share)
            first, cut = index + 1, {}
        if first < len(shares):
            yield _Part(first, len(shares), cut)

    def sharers(self, shard: int, place: int, shards: Sequence[int]) -> list[RowShare]:
        """The shares of a unit of those of `shards` that reach it at about the same time as `shard`."""
        pieces = self.pieces
        indices = np.flatnonzero(pieces.places == place)
        owners = np.searchsorted(pieces.starts, indices, "right") - 1
        reached = self._weight_before[indices] - self._weight_before[pieces.starts[owners]]
        own = reached[owners == shard][0]
        near = np.abs(reached - own) <= self._near(place)
        return pieces.shares(indices[near & np.isin(owners, shards)])

    def _near(self, place: int) -> int:
        """Shards read a unit together if their work before it differs by no more than this."""
        total = int(self._weight_before[-1])
        if self.rows is not None and self._row_bytes is not None:
            rows = int(self.rows[place])
            if 0 <= rows * self._row_bytes <= MAX_KEPT_BYTES:
                return total
        return total // (MAX_SKEW * self.pieces.shards)

    @cached_property
    def _weight_before(self) -> Numbers:
        """The weight of the pieces of the table before each of them, and of all."""
        pieces = self.pieces
        width = pieces.stop - pieces.first
        return np.concatenate([[0], np.cumsum(self.weights[pieces.places] * width // pieces.slots)])

    @property
    def _order(self) -> Permutation | None:
        """The order in which places of pieces are those of units; None if they are units."""
        return self.permutation

    def _number(self, place: int) -> int:
        """The position of a unit in the source."""
        return place if self.permutation is None else int(self.permutation[range(place, place + 1)][0])

    def _can_cut(self, place: int, share: RowShare) -> bool:
        op = self._units.op
        if not isinstance(op, Source) or type(op).cut is Source.cut or self._rows_op.trait is Trait.WHOLE_UNITS:
            return False
        number = self._number(place)
        (unit,) = self._units.rows(range(number, number + 1), Context())
        return op.cut(unit, share.first, share.stop, share.slots) is not None

    def shared_read(self) -> SharedRead | None:
        """The units whose rows several shards divide; None if there are none."""
        if not (divided := list(self._divided())):
            return None
        total = max(1, int(self.weights.sum()))
        units: list[SharedUnit] = []
        largest, largest_part = 0, 0.0
        for place, shards, reached in divided:
            if self._can_cut(place, RowShare(0, 1, 2)):
                continue
            part = int(self.weights[place]) / total
            units.append(SharedUnit(part, shards, reached, self._near(place)))
            if part > largest_part:
                largest, largest_part = place, part
        if not units:
            return None
        origin = self._units.origin(self._number(largest), Context())
        name = f"number {self._number(largest)}" if origin is None else str(origin)
        reason = (
            f"{len(units)} of the {len(self.weights)} inputs of `{self._rows_op.kind}` are divided row by row to make "
            f"the shards even (the largest is {name}, with {largest_part:.0%} of the work)"
        )
        return SharedRead(reason, units=units)

    def _divided(self) -> Iterator[tuple[int, list[int], list[int]]]:
        """Each place that is divided, with its shards, and the work of each of them before it."""
        pieces = self.pieces
        indices = np.flatnonzero(pieces.slots > 1)
        indices = indices[np.argsort(pieces.places[indices], kind="stable")]
        owners = np.searchsorted(pieces.starts, indices, "right") - 1
        reached = self._weight_before[indices] - self._weight_before[pieces.starts[owners]]
        places, firsts = np.unique(pieces.places[indices], return_index=True)
        for place, first, stop in zip(places.tolist(), firsts, [*firsts[1:], len(indices)], strict=False):
            yield place, owners[first:stop].tolist(), reached[first:stop].tolist()

    def _shared_stage(self, place: int) -> Stage:
        if place not in self._shared:
            self._shared[place] = self._expanded(range(place, place + 1), {})
        return self._shared[place]

    def _expanded(self, places: Indices, parts: Mapping[int, RowShare]) -> Stage:
        """The path from the units to their rows, for some of the units."""
        units = self._units
        chosen = ChosenUnits(places, self._order, parts)
        stage = Stage(Node(chosen, (units.node,)), f"deal of {units.name}", (units,))
        for step, name in self._steps:
            stage = Stage(Node(step.op, (stage.node,), step.call_site), name, (stage,))
        return stage


class _Part(NamedTuple):
    """Pieces [first, stop) that are read together.

    Attributes:
        cut: the parts of units among them, by their place.
        share: if it is a unit that several shards share, the rows that belong to this one.
    """

    first: int
    stop: int
    cut: Mapping[int, RowShare]
    share: RowShare | None = None


class PieceRun(NamedTuple):
    """Pieces of a shard that are read together.

    Attributes:
        number: of the run; the numbers of a shard's runs grow.
        first, stop: the places of the shard that they are.
        source: the stage that makes their rows.
        place: of the unit whose rows several shards divide; None if the shard has all rows of `source`.
        share: the rows of that unit that the shard has.
        within: the part of the places [first, stop) that is read here, if several runs read them: from and to, of 1.
    """

    number: int
    first: int
    stop: int
    source: Stage
    place: int | None = None
    share: RowShare = RowShare(0, 1, 1)
    within: tuple[float, float] = (0.0, 1.0)


OPEN_GRANULES = 8
"""The granules of a shard whose units are mixed, if they come in a random order."""


class GranuleDivision(Division):
    """The division of so many units that they are dealt in granules of neighbouring ones.

    The granules are put in order and divided as units are, by the sums of their weights. A granule that several shards
    divide is cut at rows, so that lengths follow from the sums: the shards share at most one unit at a cut. Units are
    looked up when their shard comes to them, those of eight granules at a time; in a random order, these are mixed.
    """

    def _rows_of_pieces(self) -> Numbers:
        assert self.rows is not None, "the units know their rows"
        pieces = self.pieces
        rows = self.rows[pieces.places]
        return rows * pieces.stop // pieces.slots - rows * pieces.first // pieces.slots

    def runs(self, shard: int, at: int = 0) -> Iterator[PieceRun]:
        pieces = self.pieces
        in_rounds = np.arange(shard, shard + pieces.rounds * pieces.shards, pieces.shards)
        table = pieces.of_shard(shard)
        whole = np.ones(pieces.rounds, np.int64)
        columns = zip(
            np.concatenate([in_rounds, table.places]).tolist(),
            np.concatenate([whole, table.slots]).tolist(),
            np.concatenate([whole - 1, table.first]).tolist(),
            np.concatenate([whole, table.stop]).tolist(),
            strict=True,
        )
        granules = list(columns)
        for first in range(0, len(granules), OPEN_GRANULES):
            group = granules[first : first + OPEN_GRANULES]
            begin = first * self._granule
            if at >= begin + len(group) * self._granule:
                continue
            units, shares = self._mixed(shard, group)
            for part in self._parts(units, shares):
                of_group = part.first / len(units), part.stop / len(units)
                place, share, chosen = None, RowShare(0, 1, 1), units[part.first : part.stop]
                if part.share is not None:
                    place, share = int(chosen[0]), part.share
                source = self._expanded(chosen, part.cut)
                yield PieceRun(begin + part.first, first, first + len(group), source, place, share, of_group)

    def spans(self, shard: int, at: int, units: int) -> Iterator[PieceRun]:
        return self.runs(shard, at)

    def _mixed(self, shard: int, group: Sequence[tuple[int, int, int, int]]) -> tuple[Numbers, list[RowShare]]:
        """The units of some granules, in the order in which they are read, and the part of each that is read."""
        parts = [self._units_in(*piece) for piece in group]
        units = np.concatenate([units for units, _ in parts])
        shares = [share for _, of_granule in parts for share in of_granule]
        if self.permutation is None:
            return units, shares
        key = replace(self._pass, shard=shard).key(f"mix of {self._units.name} from {group[0][0]}")
        order = Permutation(key, len(units))[range(len(units))]
        return units[order], [shares[place] for place in order.tolist()]

    def _units_in(self, place: int, slots: int, first: int, stop: int) -> tuple[Numbers, list[RowShare]]:
        """The units of a part of a granule, and the part of each."""
        begin = super()._number(place) * self._granule
        units = range(begin, min(self._units.length or 0, begin + self._granule))
        if slots == 1:
            return index_array(units), [RowShare(0, 1, 1)] * len(units)
        weights = fill_unknown(self._weights_of(units))
        total, before = int(weights.sum()), np.cumsum(weights) - weights
        low, high = (np.clip(total * slot // slots - before, 0, weights) for slot in (first, stop))
        steps = weights
        if self.rows is None:  # bytes do not lie in slots exactly
            mean = max(1, int(self.weights.sum()) // self.pieces.shards)
            steps = np.clip(-(-weights * SLOTS_PER_SHARE // mean), 1, MAX_SLOTS)
            low, high = ((2 * cut * steps + weights) // np.maximum(1, 2 * weights) for cut in (low, high))
        chosen = np.flatnonzero(high > low)
        parts = zip(*(column[chosen].tolist() for column in (low, high, steps)), strict=True)
        return index_array(units)[chosen], [
            RowShare(0, 1, 1) if high - low == steps else RowShare(low, high, steps, self._step(steps))
            for low, high, steps in parts
        ]

    def _weights_of(self, units: range) -> Numbers:
        assert self._each is not None, "granules have weights, and so have their units"
        return self._each(units)

    def _step(self, slots: int) -> int:
        return 1 if self.rows is not None else step_of(slots)

    def sharers(self, shard: int, place: int, shards: Sequence[int]) -> list[RowShare]:
        return []  # the shards of a process that share a unit read it one by one

    @property
    def _order(self) -> None:
        return None

    def _number(self, place: int) -> int:
        return place

    def shared_read(self) -> SharedRead | None:
        """The units at the cuts. Those of a granule that is larger than a share may be large, so they are looked up."""
        if not (divided := list(self._divided())):
            return None
        total = max(1, int(self.weights.sum()))
        units: list[SharedUnit] = []
        largest, largest_weight = 0, -1
        for place, shards, reached in divided:
            weight = int(self.weights[place]) // self._granule
            if int(self.weights[place]) * self.pieces.shards > total:
                numbers, _ = self._units_in(place, 1, 0, 1)
                weights = self._weights_of(range(int(numbers[0]), int(numbers[-1]) + 1))
                weight = int(weights.max())
                if weight > largest_weight:
                    largest, largest_weight = int(numbers[weights.argmax()]), weight
            units.append(SharedUnit(weight / total, shards, reached, 0))
        largest_is = ""
        if largest_weight >= 0:
            origin = self._units.origin(largest, Context())
            largest_is = f" (the largest is {origin}, with {largest_weight / total:.0%} of the work)"
        reason = f"units of `{self._rows_op.kind}` are divided row by row to make the shards even{largest_is}"
        return SharedRead(reason, units=units)


@dataclass(frozen=True, eq=False, repr=False)
class ChosenUnits(PlacedShard):
    """The units at some places in the order of a pass; of a unit in `parts`, only these slots."""

    trait: ClassVar[Trait | None] = Trait.DEALS_UNITS

    chosen: Indices = field(repr=False, compare=False)
    permutation: Permutation | None = field(repr=False, compare=False)
    parts: Mapping[int, RowShare] = field(repr=False, compare=False)

    def length(self, stage: StageView) -> int:
        return len(self.chosen)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        places = rows_at(self.chosen, indices)
        return places if self.permutation is None else self.permutation[places]

    def weights(self, stage: StageView, context: Context) -> Weights | None:
        weights = stage.input.weights(context.unsharded())
        if weights is None or not each_row([weights]):
            return None
        values = weights.values[index_array(self.places(stage, range(len(self.chosen)), context))]
        for index, part in self.parts.items():
            values[index] = values[index] * (part.stop - part.first) // part.slots
        return Weights(values, weights.are_rows)

    def read(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        units = super().read(stage, indices, context)
        if not self.parts:
            return units
        source = cast("Source", stage.input.op)
        return [self._part(source, int(index), unit) for index, unit in zip(indices, units, strict=True)]

    def _part(self, source: Source, index: int, unit: object) -> object:
        part = self.parts.get(index)
        return unit if part is None else source.cut(unit, part.first, part.stop, part.slots)


def _path(units: Stage, rows: Stage) -> list[Stage]:
    """The stages from after `units` to `rows`."""
    path: list[Stage] = []
    stage = rows
    while stage is not units:
        path.append(stage)
        stage = stage.input
    return path[::-1]


def units_of(rows: Stage) -> Stage:
    """The indexed stage whose rows are expanded."""
    stage = rows
    while not stage.indexed:
        stage = stage.input
    return stage
