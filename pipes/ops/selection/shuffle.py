"""`shuffle`: all rows in a random order, or rows in a random order within a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from ...core.block import Block
from ...core.checks import check_bool, check_int
from ...core.context import Context
from ...core.cursor import Cursor, Json, check_numbers
from ...core.operator import Input, Order, StageView
from ...core.randomness import Generators
from ...core.rows import Indices
from ...engine.permutation import Permutation
from ...errors import PlanError, with_call_site
from .._same_rows import Rearranged
from ._window import Halves, Waiting, first_waiting, leave, warn_if_large

if TYPE_CHECKING:
    from ...pipe import Pipe

T = TypeVar("T")


@dataclass(frozen=True)
class Shuffle(Rearranged):
    kind: ClassVar[str] = "shuffle"
    order: ClassVar[Order] = Order.REORDERS

    window: int | None = None
    seed: int | None = None
    name: str | None = None
    each_epoch: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if self.window is not None:
            object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.seed is not None:
            object.__setattr__(self, "seed", check_int("seed", self.seed, least=0))
        check_bool("each_epoch", self.each_epoch)

    def reshuffles(self) -> bool:
        return self.each_epoch

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return self.window is None and inputs[0]

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def lookback(self) -> int:
        return self.window or 0

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self._permutation(stage, context)[indices]

    def _permutation(self, stage: StageView, context: Context) -> Permutation:
        length = stage.input.length
        assert length is not None, "an indexed pipe knows its length"
        context = context if self.each_epoch else context.every_epoch()
        run = (context.seed, context.epoch, context.rounds, context.shard)
        return stage.memo(run, lambda: Permutation(context.key(stage.name, seed=self.seed), length))

    # A windowed shuffle cuts the input into halves of `window / 2` rows. For each half, a generator keyed by its number
    # chooses the rows that leave at once; the others wait for the next half. The rows that leave are permuted. So what
    # comes out with a half depends only on that half and the one before it, and a resume reads no further back.

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        number, source = at.numbered()
        check_numbers(number)
        yield stage.input, source.plain

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        number, source = at.numbered()
        keyed = context if self.each_epoch else context.every_epoch()
        generators = Generators(keyed.key(stage.name, seed=self.seed))
        row = at.row
        size = max(1, (self.window or 1) // 2)
        input_halves = Halves(stage.input.blocks(source, context), size)
        waiting: Waiting | None = None
        if number:
            waiting = first_waiting(input_halves.take_one(), generators.at(number - 1))
        while (halves := input_halves.take(waiting)) or waiting is not None:
            if waiting is None:
                warn_if_large(stage, halves, self.window or 1, context)
            start = Cursor([number, (waiting.at if waiting is not None else halves[0].at).plain], 0, row)
            rows, origins, waiting, number = leave(waiting, halves, size, generators, number)
            del halves  # the rows that have left belong to the consumer only
            row += len(rows)
            end = start.advance(len(rows)) if waiting is None else Cursor([number, waiting.at.plain], 0, row)
            output = [Block(rows, start, end, origins)]
            del rows
            if len(output[0]):
                yield output.pop()


def shuffle(
    pipe: Pipe[T],
    /,
    window: int | None = None,
    *,
    seed: int | None = None,
    each_epoch: bool = True,
    name: str | None = None,
) -> Pipe[T]:
    """Put the rows into a random order, a new one in each epoch.

    Element and length are the input's. Order: it depends on the seed, the epoch and the operator's name, not on ranks
    or workers. Without `window` the input must be indexed: every order of all rows is equally likely, no rows are kept
    in memory, and a resume runs nothing again. With `window` a row moves by about half a window in either direction, at
    most `window` rows are kept in memory, and a resume reads at most `window` rows again. State: a position.

    Each virtual shard has a window, and a batch is drawn among the rows of one shard's window: a rank keeps 8 windows
    by default, and a warning says if these hold more than a quarter of its memory. If files are sorted by class, a
    batch has many classes only if the window spans many files.

    Args:
        window: number of rows to shuffle among; None shuffles all rows.
        seed: used in place of the loader's seed.
        each_epoch: False gives the same order in each epoch, and in each round of a `repeat`. So `.take(n)` and
            `.skip(n)` behind it divide the rows once and for all; see also `split`.
        name: identifies the operator in the key of its random order, in place of its kind and count.

    Raises:
        PlanError: the pipe is streamed and `window` is not given.
        ArgumentError: `window` is below 1, or `seed` below 0.

    Source: a small permutation is drawn; a large one is computed by a Feistel network with cycle walking (Black and
    Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).

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
                "`shuffle()` without a `window` must follow an indexed pipe, because it reads rows in any order, and "
                "this pipe is streamed; give `window=10_000`, or put `.load()` before it to keep the rows in memory"
            )
        )
    return pipe.then(Shuffle(window, seed, name, each_epoch=each_epoch))
