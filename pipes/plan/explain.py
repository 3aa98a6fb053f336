"""`explained`: the text that `Pipe.explain()` prints; `facts`: what a plan says of each operator."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..core.block import row_width
from ..core.checks import check_int
from ..core.graph import Node, node_code, walk
from ..core.operator import Columns, Trait
from ..core.process import bytes_text, large_windows
from ..engine.run import unknown_length_reason
from ..engine.stage import Stage
from .division import SharedRead
from .findings import idle_workers, other_rows, windows
from .plan import Plan


class OperatorFacts(NamedTuple):
    """What a plan says of one operator.

    Attributes:
        code: its call.
        size: the number of its elements, and whether they are indexed.
        notes: of its rows.
        below: where rows are divided, or go to another process, after it.
    """

    code: str
    size: str
    notes: list[str]
    below: list[str]


def explained(root: Node, *, world_size: int, workers: int, shards: int | None) -> str:
    """The plan of a loader for `root`: a tree of the operators, then remarks."""
    plan = plan_of(root, world_size=world_size, workers=workers, shards=shards)
    lines = [head(plan), *_tree(plan.root, facts(plan)), *remarks(plan, workers)]
    return "\n".join(lines)


def plan_of(root: Node, *, world_size: int, workers: int, shards: int | None) -> Plan:
    """The plan of rank 0 of ranks that need not exist."""
    check_numbers(world_size, workers, shards)
    return Plan(root, seed=0, rank=0, world_size=world_size, shards=shards)


def check_numbers(world_size: int, workers: int, shards: int | None) -> None:
    """Raise an error if a number of `explain` is out of its range."""
    check_int("world_size", world_size, least=1)
    check_int("workers", workers, least=0)
    if shards is not None:
        check_int("shards", shards, least=1)


def head(plan: Plan) -> str:
    """The size of the output, and how it is divided."""
    length = plan.unsharded.length
    size = "length unknown" if length is None else f"{length} elements"
    if plan.indexed:
        return f"indexed, {size}; divided at the end, element by element"
    return f"streamed, {size}; {plan.shards} virtual shard{'s' * (plan.shards > 1)}"


def remarks(plan: Plan, workers: int) -> list[str]:
    """What a resume runs again, the elements of the ranks, windows, and remarks of operators; each once."""
    lines = [_resume(plan), *_ranks(plan), *_windows(plan), *_remarks(plan)]
    for read in plan.shared_reads().values():
        times = _times(read, plan.world_size, plan.busy_workers(workers))
        lines.append(f"several shards read: {read.reason}; it is read {times}")
    lines += [*_workers(plan, workers), *(finding.text for finding in idle_workers(plan, workers))]
    return list(dict.fromkeys(lines))


def facts(plan: Plan) -> dict[Node, OperatorFacts]:
    """What a plan says of each operator."""
    columnar: dict[Node, bool] = {}
    points = plan.shard_points()
    found: dict[Node, OperatorFacts] = {}
    for node in walk(plan.root):
        columnar[node] = _columnar(node, columnar)
        notes: list[str] = []
        if node.inputs and not columnar[node] and any(columnar[child] for child in node.inputs):
            notes.append("columns become Python rows here")
        below: list[str] = []
        if node in points and not plan.indexed:
            how = "by index" if node.indexed else "row by row"
            below.append(f"divided here among {plan.shards} shard{'s' * (plan.shards > 1)}, {how}")
        if node.op.trait is Trait.WORKERS:
            whole = any(node in walk(point) for point in points)  # the rows are divided only after it
            who = "one worker of each rank runs" if whole else "workers run"
            below.append(f"{who} the graph up to here, the training process the rest")
        found[node] = OperatorFacts(node_code(node), _size(plan.stage_of(node)), notes, below)
    return found


def _tree(root: Node, found: dict[Node, OperatorFacts]) -> list[str]:
    """A line for each operator. The further inputs of one stand before it, each behind a bar."""
    lines: list[tuple[str, str]] = []
    _add_branch(root, "  ", found, set(), lines)
    width = min(60, max(len(left) for left, right in lines if right))
    return [f"{left:<{width}}  {right}" if right else left for left, right in lines]


def _add_branch(
    node: Node, bars: str, found: dict[Node, OperatorFacts], written: set[Node], lines: list[tuple[str, str]]
) -> None:
    chain = [node]
    while chain[-1].inputs and not chain[-1].op.input_names and chain[-1] not in written:
        chain.append(chain[-1].inputs[0])
    for one in reversed(chain):
        fact = found[one]
        if one in written:
            lines.append((f"{bars}{fact.code}", "the one above"))
            continue
        written.add(one)
        names = one.op.input_names
        for place, other in enumerate(one.inputs):
            if names:
                lines.append((f"{bars}| {names[place]}:", ""))
            if place or names:
                _add_branch(other, f"{bars}| {'  ' if names else ''}", found, written, lines)
        lines.append((f"{bars}{fact.code}", "; ".join([fact.size, *fact.notes])))
        lines += [(f"{bars}-- {text} --", "") for text in fact.below]


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
    costs = Counter(
        f"{rows} rows of `{node.op.kind}`"
        for node in walk(plan.root)
        if node.inputs and not node.indexed and (rows := node.op.lookback())
    )
    parts = [text if times == 1 else f"{text} ({times} of them)" for text, times in costs.items()]
    return "resume: runs again at most " + ", ".join([*parts, "one block"]) + ", in each shard"


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


def _workers(plan: Plan, workers: int) -> list[str]:
    """How the workers of a rank divide its work, if they do not divide shards."""
    if workers < 2 or (spans := plan.spans()) is None:
        return []
    if isinstance(spans, str):
        line = f"workers: one of {workers} makes all rows of a rank, because {spans}"
        return [f"{line}; `shards={workers}` lets all work, in another order"]
    return [f"workers: {workers} make spans of the rows in turn, up to `{node_code(spans.top.node).lstrip('.')}`"]


def _windows(plan: Plan) -> list[str]:
    """The rows that a rank holds in the windows of its shards, and their bytes if rows have one size."""
    lines: list[str] = []
    for node, window, shards in windows(plan):
        call = f"`{node_code(node).lstrip('.')}`"
        if shards:
            line = f"memory: a rank holds up to {window} rows for {call}, divided among {shards} shard"
            line += "s" * (shards > 1)
        else:
            line = f"memory: each process holds up to {window} rows for {call}, which it runs on all rows"
        width = row_width(plan.stage_of(node).schema)
        if width is not None:
            size = window * width
            line = "; ".join(filter(None, [f"{line}, {bytes_text(size)} in all", large_windows(size)]))
        lines.append(line)
    return lines


def _remarks(plan: Plan) -> list[str]:
    """The remarks of operators, each once, with the calls that it is about."""
    calls: dict[str, list[str]] = {}
    for node in walk(plan.root):
        remark = node.op.remark(plan.stage_of(node))
        if remark is not None:
            calls.setdefault(remark, []).append(f"`{node_code(node).lstrip('.')}`")
    lines = [f"{', '.join(dict.fromkeys(names))}: {remark}" for remark, names in calls.items()]
    return [*lines, *(finding.text for finding in other_rows(plan))]


def _times(read: SharedRead, world_size: int, workers: int) -> str:
    times = read.times(world_size, workers)
    process = "for all workers, by one process" if read.by_rank and workers else "by this process"
    return f"{times} times" if times > 1 else f"once, {process}"
