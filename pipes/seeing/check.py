"""`check`: what a loader of a pipe will cost its user, found in the plan and the arguments before a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from operator import attrgetter

from ..core.block import row_width
from ..core.findings import Finding, FoundWarning
from ..core.graph import Node, node_code, walk
from ..core.operator import READS_FOR_ALL_EPOCHS
from ..core.process import bytes_text, memory_budget
from ..core.process import large_windows as advice_on_windows
from ..engine.stage import resolve
from ..errors import PlanError
from ..loading.schedule import Schedule
from ..loading.state import Progress
from ..plan import findings
from ..plan.explain import plan_of
from ..plan.plan import Plan, worker_graph
from ..services.transport.graph_file import sending_error


def check(pipe: Node, *, world_size: int, workers: int, shards: int | None) -> Findings:
    """What is costly in a loader of `pipe`; see `Pipe.check`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        root = resolve(_unseen(pipe))
        plan = plan_of(root, world_size=world_size, workers=workers, shards=shards)
        found = [
            *_uneven_ranks(plan),
            *_unpicklable(root, workers),
            *findings.read_again(plan, workers),
            *findings.idle_workers(plan, workers),
            *findings.other_rows(plan),
            *_load_after_draws(root),
            *_memory(plan),
        ]
    found += [warning.message.finding for warning in caught if isinstance(warning.message, FoundWarning)]
    by_place: dict[object, Finding] = {}
    for finding in found:
        by_place.setdefault((finding.rule, finding.where), finding)
    return Findings(sorted(by_place.values(), key=attrgetter("severity")))  # "error" before "warning"


class Findings(tuple[Finding, ...]):
    """What `check` has found, errors first. Printed, it is a text with the repairs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "nothing found"


def _unseen(root: Node) -> Node:
    """A copy of a graph, in which nothing is resolved yet: what an operator warns of once, it says again."""
    copies: dict[Node, Node] = {}
    for node in walk(root):
        copies[node] = Node(node.op, tuple(copies[source] for source in node.inputs), node.call_site)
    return copies[root]


# The rules


def _uneven_ranks(plan: Plan) -> Iterator[Finding]:
    """Ranks whose numbers of elements are so different that a loader refuses them; it warns of less by itself."""
    schedule = Schedule(plan, None, "auto", communicates=True)
    try:
        schedule.end(Progress(), warns=True)
    except PlanError as error:
        yield Finding("uneven-ranks", "error", None, " ".join(str(error).split()), "fp.Loader(pipe, even=None)")


def _unpicklable(root: Node, workers: int) -> Iterator[Finding]:
    """What cannot go to worker processes."""
    error = sending_error(worker_graph(root)) if workers else None
    if error is not None:
        text, _, _ = str(error).partition("\n  at ")
        nodes = (node for node in walk(root) if sending_error(Node(node.op, node.inputs)) is not None)
        culprit = next(nodes, None)
        where = None if culprit is None else culprit.call_site
        yield Finding("unpicklable", "error", where, text, f"fp.Loader(pipe, fp.Threads({workers}))")


def _load_after_draws(root: Node) -> Iterator[Finding]:
    """Draws before an operator that keeps the rows of the first epoch for all; `cache` refuses them by itself."""
    for node in walk(root):
        if node.op.trait not in READS_FOR_ALL_EPOCHS:
            continue
        for below in walk(node.inputs[0]):
            if getattr(below.op, "rng", False) is not False:
                keep, draw = node_code(node), node_code(below)
                text = (
                    f"`{keep.lstrip('.')}` keeps what `{draw.lstrip('.')}` has drawn, so all epochs have the same "
                    "draws; put it before the draws"
                )
                yield Finding("cache-order", "warning", node.call_site, text, keep + draw)


def _memory(plan: Plan) -> Iterator[Finding]:
    """Windows that hold a large part of the memory."""
    for window in findings.windows(plan):
        width = row_width(plan.stage_of(window.node).schema)
        size = 0 if width is None else int(window.rows * width)
        advice = advice_on_windows(size)
        if advice is not None:
            call = node_code(window.node).lstrip(".")
            text = f"`{call}` holds {window.rows} rows, {bytes_text(size)} in all; {advice}"
            smaller = max(1, window.rows * (memory_budget() // 4) // size)
            yield Finding("memory", "warning", window.node.call_site, text, f".{window.node.op.kind}(window={smaller})")
