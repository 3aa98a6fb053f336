"""How the rows of a windowed shuffle leave: each half in part at once, and in part with the next half."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.block import Block, join_origins
from ...core.context import Context
from ...core.cursor import Cursor
from ...core.memory import bytes_text, large_windows
from ...core.operator import StageView
from ...core.randomness import Generators
from ...core.row_bytes import nbytes
from ...core.rows import BlockRows, have_one_signature
from ...core.take_joined import take_joined
from ...errors import Origin, PlanWarning, warn

Origins: TypeAlias = list[Origin | None] | None
Places: TypeAlias = npt.NDArray[np.int64]

ROWS_AT_ONCE = 512
"""Small halves leave together, up to so many rows: most of what a half costs does not depend on its rows."""


class Waiting(NamedTuple):
    """The rows of a half that wait for the next half.

    Attributes:
        rows, origins: of these rows.
        at: the cursor of the half.
    """

    rows: BlockRows
    origins: Origins
    at: Cursor

    @staticmethod
    def of(half: list[Block], places: Places, at: Cursor) -> Waiting:
        (rows,) = take_joined([block.rows for block in half], places)
        return Waiting(rows, _pick(join_origins(half), places), at)


class Halves:
    """A run of blocks, cut into halves of `size` rows; the last one may be shorter."""

    def __init__(self, blocks: Iterator[Block], size: int) -> None:
        self._blocks = blocks
        self._size = size
        self._most = max(1, ROWS_AT_ONCE // size)
        self._read: deque[Block] = deque()
        self._rows = 0

    def take(self, waiting: Waiting | None) -> list[Block]:
        """The rows of the next halves: of at least one, and of more if they are read already. None after the last.

        It is one if its rows, the next ones and those that wait are held in different ways: more would all become
        Python objects.
        """
        self._read_half()
        parts = [block.rows for block in self._read]
        if waiting is not None:
            parts.append(waiting.rows)
        most = self._most if self._most == 1 or not parts or have_one_signature(parts) else 1
        return self._take(min(self._rows // self._size, most) * self._size or self._rows)

    def take_one(self) -> list[Block]:
        """The rows of the next half."""
        self._read_half()
        return self._take(min(self._size, self._rows))

    def _read_half(self) -> None:
        while self._rows < self._size and (block := next(self._blocks, None)) is not None:
            self._read.append(block)
            self._rows += len(block)

    def _take(self, rows: int) -> list[Block]:
        self._rows -= rows
        taken: list[Block] = []
        while rows:
            block = self._read.popleft()
            if len(block) > rows:
                self._read.appendleft(block.slice(rows, len(block)))
                block = block.slice(0, rows)
            rows -= len(block)
            taken.append(block)
        return taken


def first_waiting(half: list[Block], random: np.random.Generator) -> Waiting:
    """The rows of the half before the first one of a run; its other rows have left."""
    return Waiting.of(half, np.flatnonzero(~_leaves_at_once(random, sum(map(len, half)))), half[0].at)


def leave(
    waiting: Waiting | None, halves: list[Block], size: int, generators: Generators, number: int
) -> tuple[BlockRows, Origins, Waiting | None, int]:
    """The rows that leave with some halves, their origins, the rows of the last half that wait, and the next number.

    The rows that leave with one half are permuted among themselves.

    Args:
        waiting: the rows of the half before.
        halves: the rows of halves of `size` rows. None after the last half, when those that wait leave.
        number: the number of the first of the halves.
    """
    parts = [block.rows for block in halves]
    origins = join_origins(halves)
    before = 0
    if waiting is not None:
        before = len(waiting.rows)
        parts = [waiting.rows, *parts]
        origins = [*(waiting.origins or ()), *(origins or ())] or None
    stop = before + sum(map(len, halves))
    rest = np.arange(before)
    orders: list[Places] = []
    start = before
    for start in range(before, max(stop, before + 1), size):
        random = generators.at(number + len(orders))
        at_once = _leaves_at_once(random, min(size, stop - start))
        leaving = np.concatenate([rest, np.flatnonzero(at_once) + start])
        orders.append(leaving[random.choice(len(leaving), len(leaving), replace=False)])  # faster than `permutation`
        rest = np.flatnonzero(~at_once) + start
    number += len(orders)
    order = orders[0] if len(orders) == 1 else np.concatenate(orders)
    if not halves:
        (rows,) = take_joined(parts, order)
        return rows, _pick(origins, order), None, number
    at = _cursor_of(halves, start - before)
    if not have_one_signature(parts):
        (rows,) = take_joined(parts, order)
        return rows, _pick(origins, order), Waiting.of(halves, rest - before, at), number
    rows, rest_rows = take_joined(parts, order, rest)
    return rows, _pick(origins, order), Waiting(rest_rows, _pick(origins, rest), at), number


def warn_if_large(stage: StageView, halves: list[Block], window: int, context: Context) -> None:
    """Warns, once, if the windows of all shards of a rank hold a large part of its memory, by the first rows.

    Shard 0 speaks for all.
    """
    rows, shards = sum(map(len, halves)), context.process.rank_shards
    if context.shard or 2 * rows + 1 < window:  # then there are fewer rows than a window could hold
        return
    size = sum(nbytes(block.rows) for block in halves) * window // rows * shards
    advice = large_windows(size)
    if advice is not None:
        message = f"`shuffle(window={window})` holds about {bytes_text(size)} in {shards} windows of a rank; {advice}"
        stage.memo("memory", lambda: warn(message, PlanWarning, stage.call_site))


def _leaves_at_once(random: np.random.Generator, rows: int) -> npt.NDArray[np.bool_]:
    return random.integers(0, 2, rows, dtype=bool)


def _cursor_of(blocks: list[Block], row: int) -> Cursor:
    """The cursor of row `row` of all blocks."""
    for block in blocks:
        if row < len(block):
            return block.at.advance(row) if row else block.at
        row -= len(block)
    raise AssertionError("the row is in one of the blocks")


def _pick(origins: Origins, places: Places) -> Origins:
    return origins and [origins[i] for i in places]
