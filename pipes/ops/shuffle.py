"""`shuffle`: rows in a random order, whole or within a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.block import Block, groups
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.operator import Operator, Order
from ..core.randomness import generator
from ..core.rows import BlockRows, Indices, take_joined
from ..engine.permutation import Permutation
from ..errors import Origin, PlanError, with_call_site

if TYPE_CHECKING:
    from ..engine.stage import Stage
    from ..pipe import Pipe

T = TypeVar("T")

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Shuffle(Operator):
    kind: ClassVar[str] = "shuffle"
    order: ClassVar[Order] = Order.REORDERS

    window: int | None = None
    seed: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.window is not None:
            object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.seed is not None:
            object.__setattr__(self, "seed", check_int("seed", self.seed, least=0))

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return self.window is None and inputs[0]

    def length(self, stage: Stage) -> int | None:
        return stage.input.length

    def lookback(self) -> int:
        return self.window or 0

    def origin(self, stage: Stage, index: int, context: Context) -> Origin | None:
        return stage.input.origin(int(self._permutation(stage, context)[range(index, index + 1)][0]), context)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        return stage.input.rows(self._permutation(stage, context)[indices], context)

    def _permutation(self, stage: Stage, context: Context) -> Permutation:
        length = stage.input.length
        assert length is not None, "an indexed pipe knows its length"
        made_for = (context.seed, context.epoch, context.rounds, context.shard)
        return stage.memo(made_for, lambda: Permutation(context.key(stage.name, seed=self.seed), length))

    # The window: the input is cut into halves of window/2 rows. A generator keyed by the number of the half splits it
    # into rows given out now and rows carried to the next half; what is given out is permuted. So what comes out of a
    # half depends on that half and the one before it, and a resume reads no further back.

    def blocks(self, stage: Stage, at: Cursor, context: Context) -> Iterator[Block]:
        number, origin = at.numbered()
        key = context.key(stage.name, seed=self.seed)
        row = at.row
        halves = groups(stage.input.blocks(origin, context), max(1, (self.window or 1) // 2))
        before: list[Block] = []
        carried = _NONE
        if number:
            before = next(halves)
            carried = np.flatnonzero(~_now(generator(key, number - 1), before))
        while True:
            half = next(halves, [])
            random = generator(key, number)
            now = _now(random, half)
            given = np.concatenate([carried, np.flatnonzero(now) + _length(before)])
            if len(given):
                here = Cursor([number, (before or half)[0].at.plain], 0, row)
                row += len(given)
                end = Cursor([number + 1, half[0].at.plain], 0, row) if half else here.advance(len(given))
                order = random.choice(given, len(given), replace=False)  # all of them: `permutation` takes longer
                yield _chosen([*before, *half], order, here, end)
            if not half:
                return
            before, carried = half, np.flatnonzero(~now)
            number += 1


def _chosen(blocks: list[Block], order: npt.NDArray[np.int64], at: Cursor, end: Cursor) -> Block:
    origins = [origin for block in blocks for origin in block.origins or ()]
    rows = take_joined([block.rows for block in blocks], order)
    return Block(rows, at, end, [origins[i] for i in order] if origins else None)


def _length(half: list[Block]) -> int:
    return sum(map(len, half))


def _now(random: np.random.Generator, half: list[Block]) -> npt.NDArray[np.bool_]:
    return random.integers(0, 2, _length(half), dtype=bool)


def shuffle(
    pipe: Pipe[T], /, window: int | None = None, *, seed: int | None = None, name: str | None = None
) -> Pipe[T]:
    """Put the rows into a random order, another in each epoch.

    Element and length are the input's. The order depends on seed, epoch and the operator's name, not on ranks or
    workers. Without `window` the input must be indexed: any order of all rows is equally likely, no rows are held, and
    a resume costs nothing. With `window` rows move by about half a window to either side, at most `window` rows are
    held, and a resume reads at most `window` rows again. State: a position.

    Args:
        window: rows among which to shuffle; None shuffles all. Each virtual shard has a window of its own.
        seed: in place of the loader's.
        name: names the operator for its key, in place of its kind and count.

    Raises:
        PlanError: no `window` on a streamed pipe.
        ArgumentError: `window` is below 1.

    Source: the permutation is drawn while it is small, else a Feistel network with cycle walking (Black and Rogaway,
    "Ciphers with Arbitrary Finite Domains", 2002).

    Example:
        >>> import feedpipe as fp
        >>> sorted(fp.from_sequence(range(4)).shuffle())
        [0, 1, 2, 3]
        >>> sorted(fp.from_sequence(range(8)).filter(lambda x: x > 3).shuffle(window=2))
        [4, 5, 6, 7]
    """
    if window is None and not pipe.indexed:
        raise PlanError(
            with_call_site(
                "`shuffle()` without a window needs a pipe whose rows can be had in any order, and this one is "
                "streamed; give `window=10_000`, or put `.load()` before it to hold its rows in memory"
            )
        )
    return pipe.then(Shuffle(window, seed, name))
