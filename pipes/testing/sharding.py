"""`check_shards`: the shards of a pipe together give the rows of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..core.context import Context, ProcessContext, ProcessResources
from ..core.cursor import START, Json
from ..core.graph import Node, node_code, walk, with_inputs
from ..core.operator import Operator, Order
from ..core.randomness import Key
from ..engine.skipping import remaining_blocks
from ..engine.stage import Stage, bind
from ..ops.placement.shard_by_rank import ShardByRank
from ..plan.plan import Plan, Position
from ..plan.sharding import has_user_boundary
from ..sources.from_iterable import from_iterable
from .elements import same

RowsOf = Callable[[object], Iterable[object]]


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
    if any(node.inputs and node.op.order is Order.GLOBAL and has_user_boundary(node) for node in walk(root)):
        return  # behind `shard_by_rank`, such an operator looks at the rows of one shard
    if root.indexed and type(root.op).resolve is not Operator.resolve:
        return  # it knows its input rows by number, so it takes no others
    original = root
    root = _sharded_before_last(root, seed, epoch)
    for shards in (2, 3):
        while True:
            plan = Plan(root, seed=seed, rank=0, world_size=1, workers=0, shards=shards)
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
    """The graph with its last operator behind the place where the work is sharded."""
    if not root.indexed or has_user_boundary(root):
        return root
    if root.op.order is Order.REGROUPS and type(root.op).blocks is not Operator.blocks:
        return _with_rows(root, set(root.inputs), seed, epoch)  # incomplete last groups of its shards are put together
    return with_inputs(root, tuple(Node(ShardByRank(), (node,), node.call_site) for node in root.inputs))


def _with_rows(root: Node, replaced: set[Node], seed: int, epoch: int) -> Node:
    """The graph with streamed sources in place of some operators; each source gives the rows of its operator."""
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
            shard=shard,
            process=ProcessContext(tuple(plan.rank_shards), resources),
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
        tail = plan.tail(Position().after(leftovers))
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
        repair += (
            "a group must not change the rows in it; `check_operator(rows_of=...)` says what the rows of a group are"
        )
        count = sum(len(_rows(stage, Context(seed=seed, epoch=epoch))) for stage in bind(root).inputs)
        if len(expected) < count:  # it leaves out rows, and a shard may leave out others
            if type(op).left_over is Operator.left_over:
                return
            draws = True
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
