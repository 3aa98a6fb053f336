"""`check`: what a loader of a pipe will cost its user, found in the plan and the arguments before a run."""

from __future__ import annotations

import math
import resource
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias, overload

from ..core.block import row_width
from ..core.findings import Finding, FoundWarning
from ..core.graph import Node, node_code, walk
from ..core.operator import READS_FOR_ALL_EPOCHS
from ..core.process import available_cpus, bytes_text, memory_budget
from ..core.process import large_windows as advice_on_windows
from ..engine.run import unknown_length_reason
from ..engine.stage import resolve
from ..errors import PlanError
from ..files.open_files import OpenFiles
from ..loading.schedule import Schedule
from ..loading.state import Progress
from ..plan import findings
from ..plan.explain import plan_of
from ..plan.plan import Plan, worker_graph
from ..services.transport.graph_file import sending_error

OTHER_FILES = 64
"""The files, sockets and libraries that a process has open besides those that it reads."""


def check(pipe: Node, *, world_size: int, workers: int, shards: int | None) -> Findings:
    """What is costly in a loader of `pipe`; see `Pipe.check`."""
    with _recorded() as found:
        root = resolve(_unseen(pipe))
        plan = plan_of(root, world_size=world_size, workers=workers, shards=shards)
        checked = _Checked(root, plan, workers)
        for rule in RULES:
            found += rule(checked)
    order = {"error": 0, "warning": 1, "hint": 2}
    by_place: dict[object, Finding] = {}
    for finding in found:
        by_place.setdefault((finding.rule, finding.where), finding)
    return Findings(sorted(by_place.values(), key=lambda finding: order[finding.severity]))


class Findings(Sequence[Finding]):
    """What `check` has found, errors first. Printed, it is a text with the repairs."""

    def __init__(self, findings: Sequence[Finding] = ()) -> None:
        self._findings = tuple(findings)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def __repr__(self) -> str:
        return "\n".join(map(str, self._findings)) or "nothing found"


@contextmanager
def _recorded() -> Generator[list[Finding]]:
    """A list of findings, to which those are added at the end that were warned of meanwhile."""
    found: list[Finding] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [warning.message.finding for warning in caught if isinstance(warning.message, FoundWarning)]


def _unseen(root: Node) -> Node:
    """A copy of a graph, in which nothing is resolved yet: what an operator warns of once, it says again."""
    copies: dict[Node, Node] = {}
    for node in walk(root):
        copies[node] = Node(node.op, tuple(copies[source] for source in node.inputs), node.call_site)
    return copies[root]


# The rules


class _Checked(NamedTuple):
    """What rules look at: the resolved pipe, the plan of rank 0, and the workers of the loader."""

    root: Node
    plan: Plan
    workers: int


def _uneven_ranks(checked: _Checked) -> Iterator[Finding]:
    """Ranks whose numbers of elements are so different that a loader refuses them; it warns of less by itself."""
    schedule = Schedule(checked.plan, None, "auto", communicates=True)
    try:
        schedule.end(Progress(), warns=True)
    except PlanError as error:
        yield Finding("uneven-ranks", "error", None, " ".join(str(error).split()), "fp.Loader(pipe, even=None)")


def _no_length(checked: _Checked) -> Iterator[Finding]:
    """Ranks whose numbers of elements only a run can tell."""
    plan = checked.plan
    if plan.world_size > 1 and plan.length(0) is None:
        reason = unknown_length_reason(plan.unsharded)
        text = (
            f"the {plan.world_size} ranks do not know their numbers of elements before a run{reason}, so they must ask "
            "each other before each step, and need a process group; `steps=` needs neither"
        )
        yield Finding("no-length", "hint", None, text, "fp.Loader(pipe, steps=1000)")


def _unpicklable(checked: _Checked) -> Iterator[Finding]:
    """What cannot go to worker processes."""
    error = sending_error(worker_graph(checked.root)) if checked.workers else None
    if error is not None:
        text, _, _ = str(error).partition("\n  at ")
        nodes = (node for node in walk(checked.root) if sending_error(Node(node.op, node.inputs)) is not None)
        culprit = next(nodes, None)
        where = None if culprit is None else culprit.call_site
        yield Finding("unpicklable", "error", where, text, f"fp.Loader(pipe, fp.Threads({checked.workers}))")


def _load_after_draws(checked: _Checked) -> Iterator[Finding]:
    """Draws before an operator that keeps the rows of the first epoch for all; `cache` refuses them by itself."""
    for node in walk(checked.root):
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


def _memory(checked: _Checked) -> Iterator[Finding]:
    """Windows that hold a large part of the memory."""
    for window in findings.windows(checked.plan):
        width = row_width(checked.plan.stage_of(window.node).schema)
        size = 0 if width is None else int(window.rows * width)
        advice = advice_on_windows(size)
        if advice is not None:
            call = node_code(window.node).lstrip(".")
            text = f"`{call}` holds {window.rows} rows, {bytes_text(size)} in all; {advice}"
            smaller = max(1, window.rows * (memory_budget() // 4) // size)
            yield Finding("memory", "warning", window.node.call_site, text, f".{window.node.op.kind}(window={smaller})")


def _open_files(checked: _Checked) -> Iterator[Finding]:
    """More files at a time than a process may open."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    shards = -(-len(checked.plan.rank_shards) // max(1, checked.workers)) or 1
    needed = shards * _files_open(checked.root) + OTHER_FILES
    if not 0 < limit < needed:
        return
    text = (
        f"a process reads up to {needed - OTHER_FILES} files at a time, in {shards} shards, and may open {limit} in "
        "all; raise that limit, or give fewer shards"
    )
    enough, hard = 2 ** math.ceil(math.log2(2 * needed)), "resource.RLIM_INFINITY"
    if most != resource.RLIM_INFINITY:
        enough, hard = min(most, enough), str(most)
    repair = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({enough}, {hard}))"
    yield Finding("open-files", "error" if needed > 2 * limit else "warning", None, text, repair)


def _files_open(node: Node) -> int:
    """The files that one run of a graph has open at a time, at most."""
    if isinstance(node.op, OpenFiles):
        return 1
    below = sum(_files_open(source) for source in node.inputs)
    return below * int(getattr(node.op, "cycle", 1))


def _workers_over_cpus(checked: _Checked) -> Iterator[Finding]:
    cpus = math.ceil(available_cpus())
    if checked.workers > cpus:
        text = (
            f"{checked.workers} workers share {cpus} CPUs; more of them help only functions that wait, for which "
            "`concurrency=` is cheaper"
        )
        yield Finding("workers-over-cpus", "hint", None, text, f"fp.Loader(pipe, workers={cpus})")


_Rule: TypeAlias = Callable[[_Checked], Iterator[Finding]]
RULES: tuple[_Rule, ...] = (
    _uneven_ranks,
    _unpicklable,
    _no_length,
    lambda checked: findings.read_again(checked.plan, checked.workers),
    lambda checked: findings.idle_workers(checked.plan, checked.workers),
    lambda checked: findings.other_rows(checked.plan),
    _load_after_draws,
    _memory,
    _open_files,
    _workers_over_cpus,
)
