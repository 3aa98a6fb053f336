"""`check_operator`: the law of cursors, and rows that do not depend on shards."""

from __future__ import annotations

import copy
import json
import random
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from types import GeneratorType
from typing import cast

import numpy as np

from ..core.block import Block, BlockSize, close, has_skipped, parted
from ..core.context import Context, Key, Pacing, ProcessContext
from ..core.cursor import START, Cursor, Json
from ..core.ending import It, ProcessResources, Running
from ..core.graph import Node, node_code, walk, with_inputs
from ..core.lazy import pa
from ..core.operator import Grouping, Operator, Order
from ..core.rows import BlockRows, Rows, signature
from ..core.skips import Skipped
from ..core.times import Clock
from ..engine.skips import remaining_blocks
from ..engine.stage import Stage, bind, resolve
from ..ops.placement import ShardByRank
from ..pipe import Pipe, check_pipe
from ..plan.plan import Plan, Position
from ..sources.from_sequence import from_iterable

RowsOf = Callable[[object], Iterable[object]]


def check_operator(
    pipe: Pipe[object], *, samples: int = 12, seed: int = 0, epoch: int = 0, rows_of: RowsOf | None = None
) -> list[object]:
    """Check that `pipe` keeps the law of cursors, and return its rows, without those that a policy leaves out.

    The check runs the pipe with blocks cut at random. Then it resumes the pipe from cursors before and after rows (all
    of them, or `samples` drawn at random) that have gone through JSON, and resumes it again from the resumed run: the
    rows must be exactly those that follow. A cursor beyond the end must give no row. If the pipe is indexed, `rows`
    must agree with `blocks`, and at no positions give no rows, of the same columns; if its length is known, that many
    rows must come. An operator that leaves a streamed input before its end must close it.

    Unless the last operator is `Order.GLOBAL`, 2 and 3 shards of the pipe together must give the same rows, in any
    order. The rows of `Order.REGROUPS` are those of its groups. If the operator draws at random by key, or leaves out
    rows, only their number must be the same; nothing if it draws which rows come (`reshuffles`).

    Args:
        pipe: ends with the operator to check; its rows must be the same in each run.
        samples: how many positions to resume from.
        seed: the seed of the run and of the random cuts.
        epoch: the epoch of the run.
        rows_of: for an operator that regroups, a function from a group to the rows in it; by default, a group is
            iterated.

    Raises:
        AssertionError: names the operator, the cursor or the number of shards, and the first row that differs.

    Example:
        >>> import feedpipe as fp
        >>> from feedpipe.testing import check_operator
        >>> check_operator(fp.from_sequence(range(5)).filter(lambda x: x % 2))
        [1, 3]
    """
    check_pipe(pipe)
    chance = random.Random(seed)
    root = resolve(pipe)
    stage = bind(root)
    name = node_code(root)

    def run(at: Cursor) -> Trace:
        return trace(stage, through_json(name, at), random_blocks(chance, seed=seed, epoch=epoch))

    check_lookback(root)
    check_first_block(stage, Context(seed=seed, epoch=epoch))
    check_ends(stage, seed=seed, epoch=epoch)
    whole = run(START)
    rows = [_copied(row) for row in whole.rows]  # an operator that changes its input's rows changes those of all runs
    count = len(rows)
    length = stage.length
    assert length is None or length == count, f"`length` of `{name}` is {length}, but it produced {count} rows"
    cases = [(place, cursors[place], shift) for place in range(count) for cursors, shift in _cursors(whole)]
    if len(cases) > 2 * samples:
        cases = chance.sample(cases, 2 * samples)
    for place, cursor, shift in cases:
        first = place + shift
        again = run(cursor)
        _agree(name, cursor, again.rows, rows[first:])
        if again.rows:
            inside = chance.randrange(len(again.rows))
            _agree(name, again.after[inside], run(again.after[inside]).rows, rows[first + inside + 1 :])
        reach = chance.randrange(1, count + 3)
        _agree(name, cursor.advance(reach), run(cursor.advance(reach)).rows, rows[first + reach :])
    if stage.indexed and count:
        context = Context(seed=seed, epoch=epoch)
        chosen = np.array([chance.randrange(count) for _ in range(samples)], np.int64)
        _agree(name, "`rows`", list(stage.rows(chosen, context)), [rows[i] for i in chosen])
        _agree(name, "`rows`", list(stage.rows(range(count), context)), rows)
    if stage.indexed:
        _check_no_rows(stage, count, Context(seed=seed, epoch=epoch))
    check_shards(root, [*parted(rows).values], seed=seed, epoch=epoch, rows_of=rows_of)
    return [*parted(whole.rows).values]


def _agree(name: str, at: object, got: Sequence[object], expected: Sequence[object]) -> None:
    for place, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert same(one, other), f"`{name}` from {at}: row {place} is {one!r} and should be {other!r}"
    assert len(got) == len(expected), f"`{name}` from {at} produced {len(got)} rows, and {len(expected)} were left"


def _cursors(run: Trace) -> list[tuple[list[Cursor], int]]:
    return [(run.before, 0), (run.after, 1)]


def _copied(row: object) -> object:
    """A copy of `row`, or the row itself if no copy is equal to it."""
    try:
        copied = copy.deepcopy(row)
        return copied if same(copied, row) else row
    except Exception:  # not every row can be copied
        return row


def _check_no_rows(stage: Stage, count: int, context: Context) -> None:
    """Checks that `rows` gives no rows at no positions, of the type and columns of all others."""
    name = node_code(stage.node)
    firsts = (stage.rows(range(place, place + 1), context) for place in range(count))
    columns = signature(next((first for first in firsts if not has_skipped(first)), stage.rows(range(0), context)))
    for indices in (range(0), np.zeros(0, np.int64)):
        rows = stage.rows(indices, context)
        assert len(rows) == 0, f"`{name}` gives {len(rows)} rows at the positions {indices!r}"
        assert signature(rows) == columns, (
            f"`{name}` gives rows of the columns {columns} but at no positions of {signature(rows)}"
        )


def check_lookback(node: Node) -> None:
    lookback = cast("object", node.op.lookback())
    assert isinstance(lookback, int) and lookback >= 0, (
        f"`lookback` of `{node_code(node)}` must return an int >= 0 but returned: {lookback!r}"
    )


@dataclass(frozen=True)
class Trace:
    """The rows of a run, with a cursor before and one after each."""

    rows: list[object]
    before: list[Cursor]
    after: list[Cursor]


def trace(stage: Stage, at: Cursor, context: Context) -> Trace:
    """Runs `stage` from `at`; checks that blocks are never empty and that cursors count the rows."""
    run = Trace([], [], [])
    for block in stage.blocks(at, context):
        position = at.position + len(run.rows)
        check_block(stage, block, position)
        count = len(block)
        run.before.extend(block.at.advance(k) for k in range(count))
        run.after.extend(block.at.advance(k + 1) for k in range(count - 1))
        run.after.append(block.end)
        run.rows.extend(block.rows)
    return run


def random_blocks(chance: random.Random, *, seed: int = 0, epoch: int = 0) -> Context:
    """A context in which all operators cut their blocks at random positions."""

    def block_size(clock: Clock) -> BlockSize:
        return _RandomSize(chance)

    def cut(length: int) -> list[int]:
        if chance.random() < 0.5:
            return [length]
        places = sorted({0, length, *(chance.randrange(length + 1) for _ in range(chance.randrange(1, 4)))})
        return [b - a for a, b in pairwise(places)]

    return Context(seed=seed, epoch=epoch, pacing=Pacing(block_size, cut=cut))


class _RandomSize:
    """Blocks of a random size, without a clock."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def rows(self) -> int:
        return self._chance.choice([1, 1, 2, 3, 7, 40])

    def produced(self, rows: BlockRows) -> None:
        pass


# Rows, blocks and cursors


def check_first_block(stage: Stage, context: Context) -> None:
    """Checks the first rows as the operator returns them, before any code of the engine uses them."""
    if stage.indexed:
        if stage.length:
            _check_rows(node_code(stage.node), stage.rows(range(1), context))
        return
    blocks = stage.blocks(START, context)
    block = next(blocks, None)
    close(blocks)
    if block is not None:
        check_block(stage, block, 0)


def check_ends(stage: Stage, *, seed: int = 0, epoch: int = 0) -> None:
    """Checks that no input is left to the garbage collector, where Python loses a Ctrl-C."""
    for count in (None, 1):
        running = _WatchedRunning()
        context = Context(seed=seed, epoch=epoch, process=ProcessContext(running=running))
        blocks = stage.blocks(START, context)
        try:
            for _ in islice(blocks, count):
                pass
        finally:
            context.close()
            close(blocks)
        assert not running.dropped, (
            f"`{node_code(stage.node)}` has left its input to the garbage collector before its end; close it in a "
            "`finally`: `inner = context.part()`, then `with closing(inner.running)` around what reads "
            "`stage.input.blocks(at, inner)`"
        )


class _WatchedRunning(Running):
    """Notes each generator that is dropped before its end.

    Attributes:
        dropped: an item for each of them; parts share the list.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[None] = []

    def part(self) -> Running:
        part = _WatchedRunning()
        part.dropped = self.dropped
        return part

    def add(self, items: It) -> It:
        return super().add(cast("It", self._watched(items)) if isinstance(items, GeneratorType) else items)

    def _watched(self, items: Generator[object]) -> Generator[object]:
        def watched() -> Generator[object]:
            try:
                yield from items
            except GeneratorExit:
                if run() is None:  # Python clears the references to a generator that it drops, then ends it
                    self.dropped.append(None)
                raise

        generator = watched()
        run = weakref.ref(generator)
        return generator


def check_block(stage: Stage, block: object, position: int) -> None:
    """Checks a block of `stage` that should begin at `position` of its output."""
    name = node_code(stage.node)
    assert isinstance(block, Block), f"`{name}` must produce blocks but produced a value of type {type(block).__name__}"
    _check_rows(name, block.rows)
    for cursor in cast("tuple[object, ...]", (block.at, block.end)):
        assert isinstance(cursor, Cursor), f"`{name}` must produce blocks with cursors but produced: {cursor!r}"
    if stage.indexed:  # the engine made the cursors
        indices = block.end.position - block.at.position
        assert len(block) == indices, (
            f"`rows` of `{name}` must return one row for each index but returned {len(block)} rows for {indices} "
            "indices"
        )
    assert len(block) > 0, f"`{name}` produced an empty block; a block must have rows, so leave this one out"
    rule = "`row` of a cursor counts this operator's rows from the start of its output, also in a resumed run"
    assert block.at.position == position, (
        f"`{name}` produced a block whose cursor is at {block.at.position} and whose first row is number {position}; "
        f"{rule}"
    )
    assert block.end.position == position + len(block), (
        f"`{name}` produced a block of {len(block)} rows at {position} whose end is at {block.end.position}; {rule}"
    )


def _check_rows(name: str, rows: object) -> None:
    assert isinstance(rows, (list, Rows)), (
        f"`{name}` must produce its rows as a list or as `Rows` but produced a value of type {type(rows).__name__}"
    )
    if isinstance(rows, Rows):
        lengths = {column: len(values) for column, values in rows.columns.items()}
        assert set(lengths.values()) <= {len(rows)}, (
            f"`{name}` must produce columns of {len(rows)} rows each but produced: {lengths}"
        )


def through_json(name: str, cursor: Cursor) -> Cursor:
    """The cursor as it comes back from a saved state."""
    try:
        decoded = Cursor.of(json.loads(json.dumps(cursor.plain)))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"`{name}` produced a cursor that is no plain JSON: {cursor} ({error})") from error
    assert decoded == cursor, (
        f"`{name}` produced a cursor that JSON changes from {cursor} to {decoded}; make tokens of `cursor.plain`, of "
        "lists and of other plain values"
    )
    return decoded


# Equality of elements


def same(one: object, other: object) -> bool:
    """Whether two elements are equal: arrays and tensors by type and value, tables and lists row by row."""
    if isinstance(one, Skipped) and isinstance(other, Skipped):
        return one.is_row == other.is_row and len(one.skips) == len(other.skips) and same(one.value, other.value)
    if isinstance(one, pa.RecordBatch) and isinstance(other, pa.RecordBatch):
        return one.schema == other.schema and same(one.to_pylist(), other.to_pylist())
    if hasattr(one, "__array__") or hasattr(other, "__array__"):
        if type(one) is not type(other):
            return False
        a, b = np.asarray(one), np.asarray(other)
        return a.dtype == b.dtype and a.shape == b.shape and bool(_equal(a, b))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, (str, bytes)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)  # NaN


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


# The rows of shards


@dataclass(frozen=True, slots=True)
class _ObservedContext(Context):
    """A context that records which operators draw with the key of a shard: their draws differ between shards."""

    drawing: set[str] = field(default_factory=set)

    def key(self, name: str, *, seed: int | None = None) -> Key:
        if self.shard is not None:
            self.drawing.add(name)
        return Context.key(self, name, seed=seed)


def check_shards(root: Node, rows: Sequence[object], *, seed: int, epoch: int, rows_of: RowsOf | None) -> None:
    """Checks the last operator of `root`, a resolved graph that gives `rows` when it runs without shards.

    Operators before the last one may rightly give other rows in each shard: those that group, and those that draw at
    random. The check replaces each of them by the rows that it gives without shards.
    """
    if not root.inputs or root.op.order is Order.GLOBAL:
        return
    if any(node.inputs and node.op.order is Order.GLOBAL and node.has_user_boundary for node in walk(root)):
        return  # after `shard_by_rank`, such an operator looks at the rows of one shard
    if root.indexed and type(root.op).resolve is not Operator.resolve:
        return  # it knows its input rows by number, so it takes no others
    original = root
    root = _sharded_before_last(root, seed, epoch)
    for shards in (2, 3):
        while True:
            plan = Plan(root, seed=seed, rank=0, world_size=1, shards=shards)
            drawing: set[str] = set()
            sharded = _run(plan, seed, epoch, drawing)
            differing = _differing(plan, drawing)
            if not differing:
                break
            root = _with_rows(root, differing, seed, epoch)
        expected = rows if root is original else _rows(bind(root), Context(seed=seed, epoch=epoch))
        draws = root.op.order is not Order.REORDERS and plan.names[root] in drawing
        _compare(root, expected, sharded, shards, draws=draws, rows_of=rows_of, seed=seed, epoch=epoch)


def _sharded_before_last(root: Node, seed: int, epoch: int) -> Node:
    """The graph with the work sharded before its last operator."""
    if not root.indexed or root.has_user_boundary:
        return root
    if root.op.order is Order.REGROUPS and type(root.op).blocks is not Operator.blocks:
        return _with_rows(root, set(root.inputs), seed, epoch)  # incomplete last groups of its shards are put together
    return with_inputs(root, tuple(Node(ShardByRank(), (node,), node.call_site) for node in root.inputs))


def _with_rows(root: Node, replaced: set[Node], seed: int, epoch: int) -> Node:
    """The graph with some operators replaced by streamed sources that give their rows."""
    stages: dict[Node, Stage] = {}
    bind(root, stages=stages)
    context = Context(seed=seed, epoch=epoch)
    rebuilt: dict[Node, Node] = {}
    for node in walk(root):
        if node in replaced:
            rebuilt[node] = from_iterable(_rows(stages[node], context))
        else:
            rebuilt[node] = with_inputs(node, tuple(rebuilt[child] for child in node.inputs))
    return rebuilt[root]


def _differing(plan: Plan, drawing: set[str]) -> set[Node]:
    """The last operators before the root whose rows may differ between shards."""
    boundaries = plan.shard_points()
    differing: set[Node] = set()
    nodes = [plan.root] if plan.root not in boundaries else []
    while nodes:
        for node in nodes.pop().inputs:
            if node in boundaries:
                continue
            draws = plan.names[node] in drawing and node.op.order is not Order.REORDERS
            if draws or node.op.order is Order.REGROUPS:
                differing.add(node)
            else:
                nodes.append(node)
    return differing


def _rows(stage: Stage, context: Context) -> list[object]:
    return [row for block in remaining_blocks(stage.blocks(START, context)) for row in block.rows]


def _run(plan: Plan, seed: int, epoch: int, drawing: set[str]) -> list[object]:
    """The rows of all shards, and of their incomplete last groups."""
    resources = ProcessResources()

    def run(stage: Stage, shard: int) -> tuple[list[object], Json]:
        context = _ObservedContext(
            seed=seed,
            epoch=epoch,
            shard=plan.draws_of(shard),
            process=ProcessContext(tuple(plan.rank_shards), resources, rank_shards=len(plan.rank_shards)),
            drawing=drawing,
        )
        rows = _rows(stage, context)
        leftover = context.leftovers.get(plan.tail_name or "")
        return rows, None if leftover is None else leftover.at.plain

    try:
        rows: list[object] = []
        leftovers: dict[int, Json] = {}
        for shard in plan.rank_shards:
            shard_rows, leftovers[shard] = run(plan.shard_stage(shard), shard)
            rows += shard_rows
        tail = plan.tail(Position(ended=leftovers))
        return rows if tail is None else rows + run(tail.stage, tail.shard)[0]
    finally:
        resources.close()
        resources.join()


def _compare(
    root: Node,
    expected: Sequence[object],
    sharded: Sequence[object],
    shards: int,
    *,
    draws: bool,
    rows_of: RowsOf | None,
    seed: int,
    epoch: int,
) -> None:
    op = root.op
    repair = "a loader may run it in each shard alone, so "
    if op.order is Order.REGROUPS:
        expected, sharded = (_ungrouped(root, groups, rows_of) for groups in (expected, sharded))
        repair += "a group must not change its rows; `check_operator(rows_of=...)` says what the rows of a group are"
        count = sum(len(_rows(stage, Context(seed=seed, epoch=epoch))) for stage in bind(root).inputs)
        if len(expected) < count:  # it leaves out rows, and a shard may leave out others
            if isinstance(op, Grouping) and type(op).left_over is Grouping.left_over:
                return
            draws = True
        if min(len(expected), len(sharded)) < count and op.in_shard(shards) is not op:
            return  # in a shard it has other groups, and so another remainder
    else:
        repair += "an operator that looks at other rows, or counts them, must declare `Order.GLOBAL`"
    if draws and op.reshuffles():
        return  # it draws which rows come
    claim = f"`{node_code(root)}` declares `Order.{op.order.name}`, but {shards} shards together"
    assert len(sharded) == len(expected), (
        f"{claim} give {len(sharded)} rows, and one run without shards gives {len(expected)}; {repair}"
    )
    if draws:
        return
    extra, missing = _unmatched(sharded, expected)
    assert not extra, f"{claim} give the row {extra[0]!r} where one run without shards gives {missing[0]!r}; {repair}"


def _ungrouped(root: Node, groups: Sequence[object], rows_of: RowsOf | None) -> list[object]:
    try:
        return [row for group in groups for row in (list(group) if rows_of is None else rows_of(group))]  # type: ignore[call-overload]
    except TypeError as error:
        if rows_of is not None:
            raise
        raise AssertionError(
            f"the groups of `{node_code(root)}` cannot be iterated, so the rows of its shards cannot be compared; give "
            f"`check_operator(rows_of=...)`, a function from a group to its rows ({error})"
        ) from error


def _unmatched(rows: Sequence[object], others: Sequence[object]) -> tuple[list[object], list[object]]:
    """The rows that have no equal among `others`, and the other way round; order does not count."""
    by_text: dict[str, list[object]] = {}
    for row in others:
        by_text.setdefault(repr(row), []).append(row)
    left = [row for row in rows if not _take(by_text.get(repr(row), []), row)]
    others_left = [row for same_text in by_text.values() for row in same_text]
    return [row for row in left if not _take(others_left, row)], others_left


def _take(rows: list[object], row: object) -> bool:
    """Removes an equal of `row` from `rows`, if there is one."""
    for place, other in enumerate(rows):
        if same(row, other):
            del rows[place]
            return True
    return False
