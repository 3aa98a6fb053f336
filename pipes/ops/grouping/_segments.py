"""Groups that are made within segments: the input is cut into `window` rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.block import Block, group_origins, group_rows, join_blocks
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.operator import StageView
from ...core.rows import BlockRows, take
from ...errors import Origin

Ints: TypeAlias = npt.NDArray[np.int64]
Groups: TypeAlias = tuple[BlockRows, list[Origin | None] | None]
"""The groups of a segment, and the origin of each."""


def segment_blocks(
    stage: StageView,
    at: Cursor,
    context: Context,
    window: int,
    groups: Callable[[list[Block]], Groups],
    *,
    leaves_over: bool = False,
) -> Iterator[Block]:
    """The groups of each segment of the input, for operators that do not seek.

    Nothing is carried over to the next segment, so a resume reads one segment again. The token is the input's cursor
    at the segment.

    Args:
        stage, at, context: as in `Operator.blocks`.
        window: rows of a segment.
        groups: makes the groups of one segment.
        leaves_over: whether the rows of an incomplete last segment are left over for the rank.
    """
    row = at.row
    for segment in group_rows(stage.input.blocks(Cursor.of(at.token), context), window):
        start, end = segment[0].at, segment[-1].end
        if leaves_over and sum(map(len, segment)) < window:
            rows, origins = join_blocks(segment)
            context.leftovers[stage.name] = Block(rows, start, end, origins)
            return
        elements, origins = groups(segment)
        first, row = row, row + len(elements)
        output = [Block(elements, Cursor(start.plain, 0, first), Cursor(end.plain, 0, row), origins)]
        del segment, elements  # only the consumer holds them now
        if row > first:
            yield output.pop()


def grouped(segment: list[Block], labels: Ints, least: int = 1) -> Groups:
    """The rows of equal labels as groups, in the order of their first rows; rows keep their order.

    Args:
        segment: the rows.
        labels: a number for each row.
        least: groups of fewer rows are left out.
    """
    _, firsts, numbers, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    ranks = np.argsort(np.argsort(firsts))  # of the labels
    order = np.argsort(ranks[numbers], kind="stable")
    sizes = counts[np.argsort(firsts)]
    rows, origins = join_blocks(segment)
    rows = take(rows, order)
    spans = [(end - size, end) for end, size in zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True)]
    spans = [(start, end) for start, end in spans if end - start >= least]
    groups: list[object] = [rows[start:end] for start, end in spans]
    return groups, group_origins(origins, (order[start:end] for start, end in spans))


def counted_apart(labels: Ints) -> Ints:
    """For each row how many rows before it have its label."""
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    places = np.empty(len(labels), np.int64)
    places[order] = np.arange(len(labels)) - np.repeat(starts, counts)
    return places


def cut_apart(labels: Ints, size: int | None) -> Ints:
    """Labels of groups of at most `size` rows, of rows that have equal `labels`."""
    if size is None or not len(labels):
        return labels
    parts = counted_apart(labels) // size
    return labels * (int(parts.max()) + 1) + parts
