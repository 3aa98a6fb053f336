"""`explained`: the text that `Pipe.explain()` prints."""

from __future__ import annotations

from ..core.block import row_width
from ..core.checks import check_int
from ..core.graph import Node, find_reshuffle, node_code, walk
from ..core.operator import Boundary, Columns, Order
from ..core.process import bytes_text, large_windows
from ..engine.run import unknown_length_reason
from ..engine.stage import Stage
from ..ops.slice import SliceBase
from .division import SharedRead
from .plan import Plan

_OTHER_ROWS = (
    "gives other rows in each epoch, because the rows before it are shuffled again; for fixed parts of the data use "
    "`split`, or `shuffle(each_epoch=False)`"
)


def explained(root: Node, *, world_size: int, workers: int, shards: int | None) -> str:
    """The plan of a loader for `root`: a line for each operator, then remarks."""
    check_int("world_size", world_size, least=1)
    check_int("workers", workers, least=0)
    if shards is not None:
        check_int("shards", shards, least=1)
    plan = Plan(root, seed=0, rank=0, world_size=world_size, workers=workers, shards=shards)
    lines = [_head(plan), *_operators(plan), _resume(plan), *_ranks(plan), *_windows(plan), *_remarks(plan)]
    for read in plan.shared_reads():
        lines.append(f"several shards read: {read.reason}; it is read {_times(read, world_size, workers)}")
    return "\n".join(lines)


def _head(plan: Plan) -> str:
    length = plan.unsharded.length
    size = "length unknown" if length is None else f"{length} elements"
    if plan.indexed:
        return f"indexed, {size}; divided at the end, element by element"
    return f"streamed, {size}; {plan.shards} virtual shard{'s' * (plan.shards > 1)}"


def _operators(plan: Plan) -> list[str]:
    nodes = list(walk(plan.root))
    number = {node: place for place, node in enumerate(nodes)}
    calls = {node: node_code(node) for node in nodes}
    width = min(60, max(map(len, calls.values())))
    columnar: dict[Node, bool] = {}
    points = plan.shard_points()
    lines: list[str] = []
    for node in nodes:
        columnar[node] = _columnar(node, columnar)
        facts = [_size(plan.stage_of(node))]
        if len(node.inputs) > 1:
            facts.append("joins " + ", ".join(calls[child] for child in node.inputs))
        elif node.inputs and number[node.inputs[0]] != number[node] - 1:
            facts.append(f"reads {calls[node.inputs[0]]}")
        if node.inputs and not columnar[node] and any(columnar[child] for child in node.inputs):
            facts.append("columns become Python rows here")
        lines.append(f"  {calls[node]:<{width}}  {'; '.join(facts)}")
        if node in points and not plan.indexed:
            how = "by index" if node.indexed else "row by row"
            lines.append(f"  -- divided here among {plan.shards} shard{'s' * (plan.shards > 1)}, {how} --")
        if node.op.boundary is Boundary.WORKERS:
            whole = any(node in walk(point) for point in points)  # the rows are divided only after it
            who = "one worker of each rank runs" if whole else "workers run"
            lines.append(f"  -- {who} the graph up to here, the training process the rest --")
    return lines


def _columnar(node: Node, below: dict[Node, bool]) -> bool:
    if node.op.columns is Columns.KEEPS:
        return bool(node.inputs) and all(below[child] for child in node.inputs)
    return node.op.columns is Columns.MAKES


def _size(stage: Stage) -> str:
    length = stage.length
    return f"{'?' if length is None else length} {'indexed' if stage.indexed else 'streamed'}"


def _resume(plan: Plan) -> str:
    if plan.indexed:
        return "resume: by index, runs nothing again"
    costs = [
        f"{rows} rows of `{node.op.kind}`"
        for node in walk(plan.root)
        if node.inputs and not node.indexed and (rows := node.op.lookback())
    ]
    return "resume: runs again at most " + ", ".join([*costs, "one block"]) + ", in each shard"


def _ranks(plan: Plan) -> list[str]:
    """The numbers of elements of the ranks, or the reason why they are not known."""
    if plan.world_size == 1:
        return []
    lengths = [length for rank in range(plan.world_size) if (length := plan.length(rank)) is not None]
    if len(lengths) == plan.world_size:
        least, most = min(lengths), max(lengths)
        return [f"ranks: {least if least == most else f'{least} to {most}'} elements each"]
    reason = unknown_length_reason(plan.unsharded)
    repair = "a process group, `steps=` or `even=None`"
    return [f"ranks: their lengths are not known before a run{reason}, so they need {repair}"]


def _windows(plan: Plan) -> list[str]:
    """The rows that a rank holds in the windows of its shards, and their bytes if rows have one size."""
    lines: list[str] = []
    undivided = {node for point in plan.shard_points() for node in walk(point)}  # such as what `load` reads
    for node in walk(plan.root):
        window = node.op.lookback()
        if not node.inputs or node.op.order is not Order.REORDERS or node.indexed or not window:
            continue
        stage = plan.stage_of(node)
        if stage.input.length is not None:
            window = min(window, -(-stage.input.length // (1 if node in undivided else plan.shards)))
        call = f"`{node_code(node).lstrip('.')}`"
        if node in undivided:
            held, line = window, f"memory: each process holds up to {window} rows for {call}, which it runs on all rows"
        else:
            shards = len(plan.rank_shards)
            held = shards * window
            line = f"memory: a rank holds up to {held} rows for {call}, {window} in each of {shards} shard"
            line += "s" * (shards > 1)
        width = row_width(stage.schema)
        if width is not None:
            size = held * width
            line = "; ".join(filter(None, [f"{line}, {bytes_text(size)} in all", large_windows(size)]))
        lines.append(line)
    return lines


def _remarks(plan: Plan) -> list[str]:
    """The remarks of operators, each once, with the calls that it is about."""
    calls: dict[str, list[str]] = {}
    for node in walk(plan.root):
        remarks = [node.op.remark(plan.stage_of(node))]
        if isinstance(node.op, SliceBase) and find_reshuffle(node.inputs[0]) is not None:
            remarks.append(_OTHER_ROWS)
        for remark in remarks:
            if remark is not None:
                calls.setdefault(remark, []).append(f"`{node_code(node).lstrip('.')}`")
    return [f"{', '.join(dict.fromkeys(names))}: {remark}" for remark, names in calls.items()]


def _times(read: SharedRead, world_size: int, workers: int) -> str:
    times = read.times(world_size, workers)
    process = "for all workers, by one process" if read.by_rank and workers else "by this process"
    return f"{times} times" if times > 1 else f"once, {process}"
