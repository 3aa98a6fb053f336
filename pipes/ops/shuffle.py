"""`shuffle`: all rows in a random order, or rows in a random order within a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Block, join_origins, nbytes
from ..core.checks import check_int
from ..core.context import Context, Generators
from ..core.cursor import Cursor, Json, check_numbers
from ..core.findings import Finding
from ..core.graph import Node, walk
from ..core.operator import Amount, Input, Operator, Order, StageView
from ..core.origins import Origins
from ..core.process import bytes_text, large_windows, memory_budget
from ..core.rows import BlockRows, Indices, have_one_signature, take_joined
from ..engine.seeds import MAX_DRAWN_LENGTH, Permutation
from ..engine.stage import MAX_MEMO_BYTES
from ..errors import PlanError
from ._shared import Rearranged

if TYPE_CHECKING:
    from ..pipe import Pipe

T = TypeVar("T")
N = TypeVar("N", bound=Node)
Places: TypeAlias = npt.NDArray[np.int64]

ROWS_AT_ONCE = 512
"""Small halves leave together, up to this number of rows: most of the cost of a half does not depend on its rows."""


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

        a b c d e f   ->   shuffle(): f d e a c b

    Element and length are the input's. Order: it depends on the seed, the epoch and the operator's name, not on ranks
    or workers. Without `window` the input must be indexed: every order of all rows is equally likely, no rows are kept
    in memory, and a resume runs nothing again. With `window` a rank keeps at most `window` rows in memory, and a resume
    reads at most as many again. State: a position.

    The virtual shards of a rank, 8 by default, divide the window: each shuffles its rows among an equal part of it, in
    which a row moves by about half of that part in either direction. `Loader(shards=)` with one shard a rank shuffles
    deepest. A warning says if the window holds more than a quarter of the rank's memory. If files are sorted by class,
    a batch has many classes only if the window spans many files.

    Args:
        window: the number of rows that a rank shuffles among; None shuffles all rows, 1 returns the pipe unchanged.
        seed: used instead of the loader's seed.
        each_epoch: False gives the same order in each epoch, and in each round of a `repeat`. So `.take(n)` and
            `.skip(n)` after it divide the rows once and for all; see also `split`.
        name: identifies the operator in the key of its random order, instead of its kind and count.

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
            "`shuffle()` without a `window` must follow an indexed pipe, because it reads rows in any order, and "
            "this pipe is streamed; give `window=10_000`, or put `.load()` before it to keep the rows in memory, or "
            "`.load(path)` to keep them in files"
        )
    op = Shuffle(window, seed, name, each_epoch=each_epoch)
    return pipe if op.window == 1 else pipe.then(op)


@dataclass(frozen=True, eq=False, repr=False)
class Shuffle(Rearranged):
    """Computes a permutation of an indexed input, or shuffles a streamed one within a window.

    The window of a shard consists of two halves. For each half of the input, a generator keyed by its number chooses
    the rows that leave at once; the others wait for the next half. The rows that leave are permuted. So the rows that
    leave with a half depend only on that half and the one before it, and a resume reads no further back.
    """

    kind: ClassVar[str] = "shuffle"
    order: ClassVar[Order] = Order.REORDERS
    edits: ClassVar[Literal["groups", "order"] | None] = "order"
    blind: ClassVar[bool] = True

    window: int | None = None
    seed: int | None = None
    name: str | None = None
    each_epoch: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if self.window is not None:
            object.__setattr__(self, "window", check_int("window", self.window, least=1))
        if self.seed is not None:
            object.__setattr__(self, "seed", check_int("seed", self.seed, least=0))

    def reshuffles(self) -> bool:
        return self.each_epoch

    def indexed(self, inputs: Sequence[bool]) -> bool:
        return self.window is None and inputs[0]

    def length(self, stage: StageView) -> int | None:
        return stage.input.length

    def lookback(self) -> int:
        return self.window or 0

    def _shard_window(self, context: Context) -> int:
        """The part of the window that belongs to the shard; rows that are not divided have all of it."""
        window = self.window or 1
        return window if context.shard is None else -(-window // context.process.rank_shards)

    def amount_before(self, stage: StageView, at: Cursor, context: Context) -> Amount | None:
        _, source = at.numbered()  # each row of the input leaves once; those that wait are read again
        return stage.input.amount_before(source.advance(max(0, at.position - source.position)).plain, context)

    def places(self, stage: StageView, indices: Indices, context: Context) -> Indices:
        return self._permutation(stage, context)[indices]

    def _permutation(self, stage: StageView, context: Context) -> Permutation:
        length = stage.input.length
        assert length is not None, "an indexed pipe knows its length"
        context = context if self.each_epoch else context.every_epoch()
        run = (context.seed, context.epoch, context.rounds, context.shard)
        # A shuffle behind `repeat` asks for rows of all rounds in turn: those are drawn that the stage can remember.
        drawn = min(MAX_DRAWN_LENGTH, MAX_MEMO_BYTES // 8 // (1 + sum(context.rounds)))
        return stage.memo(run, lambda: Permutation(context.key(stage.name, seed=self.seed), length, drawn))

    def input_cursors(self, stage: StageView, at: Cursor) -> Iterator[tuple[Input, Json]]:
        number, source = at.numbered()
        check_numbers(number)
        yield stage.input, source.plain

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        number, source = at.numbered()
        keyed = context if self.each_epoch else context.every_epoch()
        generators = Generators(keyed.key(stage.name, seed=self.seed))
        row = at.row
        size = max(1, self._shard_window(context) // 2)
        input_halves = _Halves(stage.input.blocks(source, context), size)
        waiting: _Waiting | None = None
        if number:
            waiting = _first_waiting(input_halves.take_one(), generators.at(number - 1))
        while (halves := input_halves.take(waiting)) or waiting is not None:
            if waiting is None:
                _warn_if_large(stage, halves, self.window or 1, self._shard_window(context), context)
            start = Cursor([number, (waiting.at if waiting is not None else halves[0].at).plain], 0, row)
            rows, origins, waiting, number = _leave(waiting, halves, size, generators, number)
            del halves  # the rows that have left belong to the consumer only
            row += len(rows)
            end = start.advance(len(rows)) if waiting is None else Cursor([number, waiting.at.plain], 0, row)
            output = [Block(rows, start, end, origins)]
            del rows
            if len(output[0]):
                yield output.pop()


def divides_window(op: Operator) -> bool:
    """Whether the shards of a rank divide the rows that an operator shuffles among."""
    return isinstance(op, Shuffle) and op.window is not None


def with_part_of_windows(root: N, parts: int) -> N:
    """The graph for each of `parts` processes that divide the shards of a rank among them, and its windows."""
    rebuilt: dict[Node, Node] = {}
    for node in walk(root):
        inputs = tuple(rebuilt[child] for child in node.inputs)
        op = node.op
        if parts > 1 and isinstance(op, Shuffle) and op.window is not None:
            op = replace(op, window=-(-op.window // parts))
        same = op is node.op and inputs == node.inputs
        rebuilt[node] = node if same else type(node)(op, inputs, node.call_site)
    return cast("N", rebuilt[root])


class _Halves:
    """A run of blocks, divided into halves of `size` rows; the last one may be shorter."""

    def __init__(self, blocks: Iterator[Block], size: int) -> None:
        self._blocks = blocks
        self._size = size
        self._most = max(1, ROWS_AT_ONCE // size)
        self._read: deque[Block] = deque()
        self._rows = 0

    def take(self, waiting: _Waiting | None) -> list[Block]:
        """The rows of the next half, and of more if these are read already. None after the last.

        It is one half if its rows, the next ones and those that wait are held in different ways: more would all become
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


class _Waiting(NamedTuple):
    """The rows of a half that wait for the next half.

    Attributes:
        rows, origins: of these rows.
        at: the cursor of the half.
    """

    rows: BlockRows
    origins: Origins | None
    at: Cursor

    @staticmethod
    def of(half: list[Block], places: Places, at: Cursor) -> _Waiting:
        (rows,) = take_joined([block.rows for block in half], places)
        origins = join_origins(half)
        return _Waiting(rows, origins and origins.select(places), at)


def _first_waiting(half: list[Block], random: np.random.Generator) -> _Waiting:
    """The rows of the half before the first one of a run; its other rows have left."""
    return _Waiting.of(half, np.flatnonzero(~_leaves_at_once(random, sum(map(len, half)))), half[0].at)


def _leave(
    waiting: _Waiting | None, halves: list[Block], size: int, generators: Generators, number: int
) -> tuple[BlockRows, Origins | None, _Waiting | None, int]:
    """The rows that leave with some halves, their origins, the rows that wait then, and the number of the next half.

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
        origins = Origins.joined([(waiting.origins, before), (origins, sum(map(len, halves)))])
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
        return rows, origins and origins.select(order), None, number
    at = _cursor_of(halves, start - before)
    if not have_one_signature(parts):
        (rows,) = take_joined(parts, order)
        return rows, origins and origins.select(order), _Waiting.of(halves, rest - before, at), number
    rows, rest_rows = take_joined(parts, order, rest)
    return rows, origins and origins.select(order), _Waiting(rest_rows, origins and origins.select(rest), at), number


def _warn_if_large(stage: StageView, halves: list[Block], window: int, of_shard: int, context: Context) -> None:
    """Warn, once, if the window of a rank holds a large part of its memory, by the first rows of shard 0."""
    rows = sum(map(len, halves))
    if context.shard or 2 * rows + 1 < of_shard:  # then there are fewer rows than the window could hold
        return
    size = sum(nbytes(block.rows) for block in halves) * window // rows
    advice = large_windows(size)
    if advice is not None:
        text = f"`shuffle(window={window})` holds about {bytes_text(size)} on each rank; {advice}"
        smaller = max(1, window * (memory_budget() // 4) // size)
        finding = Finding("memory", "warning", stage.call_site, text, f".shuffle(window={smaller})")
        stage.memo("memory", finding.warn)


def _leaves_at_once(random: np.random.Generator, rows: int) -> npt.NDArray[np.bool_]:
    return random.integers(0, 2, rows, dtype=bool)


def _cursor_of(blocks: list[Block], row: int) -> Cursor:
    """The cursor of row `row` of all blocks."""
    for block in blocks:
        if row < len(block):
            return block.at.advance(row) if row else block.at
        row -= len(block)
    raise AssertionError("the row is in one of the blocks")
