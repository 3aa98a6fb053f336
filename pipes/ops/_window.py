"""How the rows of a windowed shuffle leave: half by half, some at once and some with the next half."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.block import Block, join_origins
from ..core.cursor import Cursor
from ..core.rows import BlockRows, have_one_signature, take_joined
from ..errors import Origin

Origins: TypeAlias = list[Origin | None] | None


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
    def of(half: list[Block], waits: npt.NDArray[np.bool_]) -> Waiting:
        places = np.flatnonzero(waits)
        (rows,) = take_joined([block.rows for block in half], places)
        return Waiting(rows, _pick(join_origins(half), places), half[0].at)


def leaves_at_once(random: np.random.Generator, half: list[Block]) -> npt.NDArray[np.bool_]:
    return random.integers(0, 2, sum(map(len, half)), dtype=bool)


def leave(
    waiting: Waiting | None, half: list[Block], random: np.random.Generator
) -> tuple[BlockRows, Origins, Waiting | None]:
    """The rows that leave with a half, permuted, and the rows of it that wait; none if there is no half any more."""
    at_once = leaves_at_once(random, half)
    parts = [block.rows for block in half]
    origins = join_origins(half)
    before = 0
    if waiting is not None:
        before = len(waiting.rows)
        parts = [waiting.rows, *parts]
        origins = [*(waiting.origins or ()), *(origins or ())] or None
    leaving = np.concatenate([np.arange(before), np.flatnonzero(at_once) + before])
    order = leaving[random.choice(len(leaving), len(leaving), replace=False)]  # faster than `permutation`
    if not half:
        (rows,) = take_joined(parts, order)
        return rows, _pick(origins, order), None
    if not have_one_signature(parts):
        (rows,) = take_joined(parts, order)
        return rows, _pick(origins, order), Waiting.of(half, ~at_once)
    places = np.flatnonzero(~at_once) + before
    rows, rest = take_joined(parts, order, places)
    return rows, _pick(origins, order), Waiting(rest, _pick(origins, places), half[0].at)


def _pick(origins: Origins, places: npt.NDArray[np.int64]) -> Origins:
    return origins and [origins[i] for i in places]
