"""`lengths_of_cut`: how many elements each rank has after the number of ranks has changed in a pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from ..core.context import Context
from ..core.cursor import Cursor
from ..core.graph import Node
from .items import Cut, Item
from .lengths import Lengths
from .parts import Line, Segment
from .pieces import Numbers
from .sharding import DividedStream, Sharding


def lengths_of_cut(
    cut: Cut, world_size: int, main: Node, tail: Sequence[Node], lengths: ItemLengths
) -> list[int] | None:
    """How many elements each rank has, if none has taken any since the cut; None if that is not known.

    Args:
        cut: says which items each shard has.
        world_size: the number of ranks, which have the shards in turn.
        main: the graph that the items run.
        tail: the operator that leaves rows over, and those behind it; empty if there is none.
        lengths: those of `runs_of_cut(cut)`.
    """
    elements = lengths.of_shards(main)
    rows = lengths.of_shards(tail[0].inputs[0]) if tail else np.zeros(0, np.int64)
    if elements is None or rows is None:
        return None
    left_over = [tail[0].op.left_over(count) for count in rows.tolist()] or [0] * len(elements)
    totals, rests = [0] * world_size, [0] * world_size  # elements, and rows for the groups at the end
    begun: list[tuple[int, int, int]] = []  # groups of leftover rows: rank, rows, and elements given
    runs = iter(zip(elements.tolist(), left_over, strict=True))
    for shard, items in cut.items.items():
        rank = shard % world_size
        for item in items:
            position = Cursor.of(item.cursor).position
            if item.leftovers is not None:
                begun.append((rank, sum(next(runs)[1] for _ in item.leftovers), position))
                continue
            count, rest = next(runs)
            totals[rank] += count - position if item.leftover is None else 0
            rests[rank] += rest
    groups = _groups(tail, lengths, [*rests, *(rest for _, rest, _ in begun)])
    if groups is None:
        return None
    for rank, count in enumerate(groups[:world_size]):
        totals[rank] += count
    for (rank, _, position), count in zip(begun, groups[world_size:], strict=True):
        totals[rank] += count - position
    return totals


def runs_of_cut(cut: Cut) -> list[Item]:
    """The items of all shards, in place of groups of leftover rows the items that left them over."""
    return [run for items in cut.items.values() for item in items for run in item.leftovers or (item,)]


def _groups(tail: Sequence[Node], lengths: Lengths, rows: list[int]) -> list[int] | None:
    """How many elements are made of leftover rows."""
    output: Numbers | None = np.array(rows, np.int64)
    for node in tail:
        output = lengths.behind(node, [output])
    return None if output is None else [count if left else 0 for count, left in zip(output.tolist(), rows, strict=True)]


class ItemLengths(Lengths):
    """As `Lengths`, with an entry of each array for each of some items.

    Args:
        sharding: the rules for the items; its streams are numbered.
        items: the runs.
        seed, data_epoch: of the pass.
    """

    def __init__(self, sharding: Sharding, items: Sequence[Item], seed: int, data_epoch: int) -> None:
        super().__init__(sharding, seed, data_epoch)
        self._runs = len(items)
        self._items = items

    def _of_divided(self, node: Node, rounds: tuple[int, ...], shuffled_later: bool) -> Numbers | None:
        count = self._sharding.stages[node].length
        return None if count is None else self._of_stream(DividedStream(node, shuffled_later, None), rounds, count)

    def _of_units(self, node: Node, units: Node, rounds: tuple[int, ...], shuffled_later: bool) -> Numbers | None:
        count = self._sharding.stages[node].length
        return None if count is None else self._of_stream(DividedStream(node, shuffled_later, units), rounds, count)

    def _of_stream(self, stream: DividedStream, rounds: tuple[int, ...], count: int) -> Numbers | None:
        """The rows of a stream, which has `count`, in the part of each item."""
        name = self._sharding.stream_name(stream)
        number = rounds[0] if rounds else 0
        line = self._sharding.line(stream, Context(self._context.seed, self._context.epoch, rounds))
        rows_in = _counter(line, count)
        if rows_in is None:
            return None
        parts = (item.part(name, self._sharding.shards).segments(number, line) for item in self._items)
        return np.array([sum(map(rows_in, segments)) for segments in parts], np.int64)

    def _rounds_differ(self, node: Node) -> bool:
        return True

    def _of_bound(self, node: Node) -> None:
        """An operator that runs its input for its length: of items it is not known."""


def _counter(line: Line | None, count: int) -> Callable[[Segment], int] | None:
    """Counts the rows of a segment of a stream of `count` rows; None if its units do not say how many they have."""
    if line is None:
        return lambda s: len(range(s.start, count if s.stop is None else min(s.stop, count), s.step))
    if line.rows is None:
        return lambda s: cast("int", s.length)
    rows = line.rows()
    if rows is None:
        return None
    before = np.concatenate([[0], np.cumsum(rows)])
    return lambda s: int(before[cast("int", s.stop)] - before[s.start])
