"""`resumed_elsewhere`: a streamed pipe goes on from the states of all ranks of a job on another number of ranks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..core.cursor import Json
from ..engine.skip_log import share_of_skips
from ..errors import StateError
from ..plan.cutting import cut
from ..plan.items import Cut, Item, items_ended, items_left
from ..plan.plan import Plan, ShardState
from .schedule import Schedule
from .state import Progress, in_turn
from .state_schema import SavedState, StreamedPosition

MAX_PASSES = 16
"""The most passes over the data by which ranks may be apart: a state keeps something of each."""


def resumed_elsewhere(states: Sequence[SavedState], schedule: Schedule) -> Progress:
    """The progress of a rank that goes on from the states of another number of ranks.

    All ranks compute the same for all of them, so none has to ask another.

    Raises:
        StateError: the states come from different resumes, or the pipe cannot go on on so many ranks.
        PlanError: the ranks cannot be made even.
    """
    plan, own = schedule.plan, schedule.plan.rank_shards
    passes = _passes(states)
    progress = Progress(states[0].epoch, sum(one.step for one in states) // plan.world_size, passes[0])
    progress.skipped = share_of_skips([one.skipped for one in states], plan.rank, plan.world_size)
    if len(passes) > 1:  # `steps` ends the epochs, so no lengths matter
        cuts = [StreamedJob(_in_pass(states, number)).divided_anew(plan) for number in passes]
        return progress.with_cuts([one.of_shards(own) for one in cuts], own)
    job = StreamedJob(states)
    plain = job.as_it_is(plan)
    if plain is not None:
        progress.cursors, progress.ended = plain.cursors, plain.ended
    else:
        progress.cut = job.divided_anew(plan)
        progress.ended = dict.fromkeys(shard for shard in range(plan.shards) if not progress.cut.items.get(shard))
    left = plan.lengths_left(progress.position(plan), progress.data_epoch)
    progress.goal = schedule.goal(progress.step, left)
    if progress.cut is not None and progress.goal is None:
        schedule.check_cut(progress.cut)
    progress.cursors = {shard: cursor for shard, cursor in progress.cursors.items() if shard in own}
    progress.ended = {shard: leftover for shard, leftover in progress.ended.items() if shard in own}
    progress.cut = None if progress.cut is None else progress.cut.of_shards(own)
    return progress


def _passes(states: Sequence[SavedState]) -> range:
    """The passes over the data in which a rank has taken something, from that of the slowest rank on.

    Raises:
        StateError: the ranks are too far apart.
    """
    last = max(one.data_epoch + len(_position(one).later) for one in states)
    passes = range(min(one.data_epoch for one in states), last + 1)
    if len(passes) > MAX_PASSES:
        raise StateError(
            f"one rank of these states is in pass {passes[0]} over the data, and another in pass {passes[-1]}; a job "
            f"whose ranks are more than {MAX_PASSES} passes apart goes on only on {states[0].world_size} ranks; begin "
            "a new pass with `set_epoch`"
        )
    return passes


def _in_pass(states: Sequence[SavedState], number: int) -> list[SavedState]:
    """The states of all ranks in one pass, which some may not have begun and others may have finished."""
    positions = [_position_in_pass(one, number) for one in states]
    cut = next((position.cut for position in positions if position.cut is not None), None)
    if cut is not None:  # a rank that is through a pass has nothing left of the cut
        positions = [p._replace(cut=p.cut or replace(cut, items={})) for p in positions]
    return [replace(one, data_epoch=number, position=p) for one, p in zip(states, positions, strict=True)]


def _position_in_pass(one: SavedState, number: int) -> StreamedPosition:
    position = _position(one)
    if number == one.data_epoch:
        return position._replace(later=())
    shards = range(one.rank, one.shards, one.world_size)
    if number < one.data_epoch:
        return StreamedPosition({}, dict.fromkeys(shards))
    if number > one.data_epoch + len(position.later):
        return StreamedPosition({}, {})
    cut = position.later[number - one.data_epoch - 1]
    return StreamedPosition({}, dict.fromkeys(shard for shard in shards if not cut.items.get(shard)), cut)


def _position(one: SavedState) -> StreamedPosition:
    return one.position if isinstance(one.position, StreamedPosition) else StreamedPosition({}, {})


class _ShardItems(NamedTuple):
    """What is left of a shard: items that have not ended, and items that left rows over."""

    running: list[Item]
    leftovers: list[Item]


class StreamedJob:
    """Where all ranks of a job of a streamed pipe stand together."""

    def __init__(self, states: Sequence[SavedState]) -> None:
        first = states[0]
        self._states = states
        self._shards = first.shards
        self._data_epoch = first.data_epoch
        self._positions = [_position(one) for one in states]
        cut = self._positions[0].cut
        for one, position in zip(states, self._positions, strict=True):
            if _name(position.cut) != _name(cut):
                raise StateError(
                    f"the states of ranks {first.rank} and {one.rank} come from different resumes, so they are not of "
                    "one job; give states that were saved together"
                )
        self._first = first.shards if cut is None else cut.first
        self._base = 0 if cut is None else cut.base
        self._is_cut = cut is not None

    def as_it_is(self, plan: Plan) -> StreamedPosition | None:
        """The position with all shards as they are, if each new rank can go on with some of them in turn."""
        joined = StreamedPosition({}, {})
        for position in self._positions:
            joined.cursors.update(position.cursors)
            joined.ended.update(position.ended)
        has_tails = any(shard >= self._shards for shard in (*joined.cursors, *joined.ended))
        if self._is_cut or has_tails or plan.shards != self._shards:
            return None
        for rank in range(plan.world_size):
            running = [shard for shard in range(rank, self._shards, plan.world_size) if shard not in joined.ended]
            if not in_turn([joined.given(shard) for shard in running]):
                return None
        return joined

    def divided_anew(self, plan: Plan) -> Cut:
        """The items of all new shards."""
        by_shard: dict[int, _ShardItems] = {}
        tails: list[Item] = []
        for one, position in zip(self._states, self._positions, strict=True):
            shards = range(one.rank, self._shards, one.world_size)
            own = {shard: self._items(shard, position) for shard in shards}
            tail = self._shards + one.rank
            if tail in position.cursors or tail in position.ended:
                if tail in position.cursors and tail not in position.ended:
                    left = [item for items in own.values() for item in items.leftovers]
                    tails.append(self._tail(tail, position, left))
                own = {shard: items._replace(leftovers=[]) for shard, items in own.items()}
            by_shard |= own
        base = self._base + self._shards + len(self._states)
        leftovers = [item for shard in sorted(by_shard) for item in by_shard[shard].leftovers]
        if plan.shards == self._shards:
            lists = [[*by_shard[shard].leftovers, *by_shard[shard].running] for shard in range(plan.shards)]
            for number, tail_item in enumerate(tails):
                lists[number].append(tail_item)
        else:
            running = [item for items in by_shard.values() for item in items.running]
            lists = cut(plan, self._first, [*running, *tails], base, self._data_epoch)
            for number, item in enumerate(leftovers):
                lists[number % plan.shards].append(item)
        return Cut(self._first, base, self._digest(plan), {n: tuple(items) for n, items in enumerate(lists) if items})

    def _items(self, shard: int, position: StreamedPosition) -> _ShardItems:
        """What is left of a shard."""
        state = ShardState(position.cursors.get(shard), shard in position.ended, position.ended.get(shard))
        if position.cut is None:
            if state.ended:
                left = [] if state.leftover is None else [Item(shard, leftover=state.leftover)]
                return _ShardItems([], left)
            return _ShardItems([Item(shard, None, state.at.plain if state.cursor else None, state.marks)], [])
        items = position.cut.items.get(shard, ())
        left = items_ended(items, state.leftover) if state.ended else items_left(items, state.cursor, state.marks)
        running = [item for item in left if item.leftover is None]
        return _ShardItems(running, [item for item in left if item.leftover is not None])

    def _tail(self, shard: int, position: StreamedPosition, leftovers: list[Item]) -> Item:
        """The groups of leftover rows that a rank has begun to give out, as an item."""
        item = Item(self._base + shard, leftovers=tuple(leftovers))
        state = ShardState(position.cursors[shard])
        if not self._is_cut:
            return Item(item.origin, None, state.at.plain, leftovers=item.leftovers)
        (begun,) = items_left((item,), state.cursor, {})
        return begun

    def _digest(self, plan: Plan) -> str:
        """Of the states and the new shards: the states of the next job come from one resume if they have the same."""
        places: list[Json] = [plan.shards, plan.world_size]
        for one, position in zip(self._states, self._positions, strict=True):
            cut: Json = None if position.cut is None else position.cut.plain
            cursors: Json = {str(shard): cursor for shard, cursor in position.cursors.items()}
            ended: Json = {str(shard): leftover for shard, leftover in position.ended.items()}
            places.append([one.rank, one.step, cursors, ended, cut])
        return hashlib.blake2b(json.dumps(places, sort_keys=True).encode(), digest_size=8).hexdigest()


def _name(cut: Cut | None) -> tuple[int, int, str] | None:
    """What the cuts of all ranks of a job have in common."""
    return None if cut is None else (cut.first, cut.base, cut.digest)
