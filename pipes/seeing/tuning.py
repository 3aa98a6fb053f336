"""`tune`: the service, the workers and the calls with which a loop does not wait for data, found by trials."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.checks import check_seconds
from ..core.code import constructor_code
from ..core.findings import with_short_code
from ..core.graph import Node, names, node_code, walk
from ..core.process import available_cpus
from ..engine.stage import resolve
from ..errors import FeedpipeError, PlanError, text_of
from ..loader import Loader
from ..pipe import Pipe, check_pipe
from ..plan.plan import Plan
from ..services.base import ReadingService
from ..services.inprocess import InProcess, Threads
from ..services.multiprocess import MultiProcess
from .report import Report
from .verdict import MAX_ADVISED, MIN_STEPS, MIN_WAITING, UNEVEN, RankView

LONGEST_TRIAL, SHORTEST_TRIAL = 5.0, 0.5
"""Seconds from the first element on."""
SLOWED = 1.25
"""A loop whose own steps take longer than in process, by this factor, is held up by its loader."""


def tune(
    pipe: Pipe[Any],
    *,
    step_seconds: float | Report | None = None,
    cpus: float | None = None,
    timeout: float = 60.0,
) -> Tuning:
    """Find the reading service, its workers and the calls at a time with which a training loop does not wait for data.

    It runs the pipe in this process to see how much work an element is, computes what is needed, and tries that, the
    cheapest first, with a loop that sleeps for `step_seconds`. The result is the first that lets the loop wait at most
    5% of its time, and does not slow down the loop itself; else the one with the shortest steps, and what is missing.
    Elements and their order stay those of `Loader(pipe)`: the number of shards is a part of the result.

    Args:
        pipe: what the loader gets.
        step_seconds: seconds that the loop takes for a step without the wait for data, or the report of a loader that
            ran it. None looks for the shortest time of an element.
        cpus: the CPUs that the loader may use; by default those of this process, divided by `LOCAL_WORLD_SIZE`.
        timeout: seconds for all trials; one that has begun takes up to five more.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type.
        PlanError: the pipe has no elements.

    Example:
        >>> import feedpipe as fp
        >>> tuning = fp.tune(fp.from_sequence(range(1000)).map(abs).batch(10), step_seconds=0.01, timeout=1)
        >>> tuning.enough, tuning.shards, tuning.concurrency
        (True, None, {})
        >>> print(str(tuning).splitlines()[-1])
        fp.Loader(pipe, fp.InProcess())
    """
    check_pipe(pipe)
    step = step_seconds.step_seconds if isinstance(step_seconds, Report) else step_seconds
    for name, value in (("step_seconds", step), ("cpus", cpus), ("timeout", timeout)):
        if value is not None:
            check_seconds(name, value)
    return _Search(pipe, step or 0.0, available_cpus() if cpus is None else cpus, timeout).result()


class Trial(NamedTuple):
    """A setting, and what came of it.

    Attributes:
        service: the reading service.
        concurrency: calls at a time, by the name of the operator.
        waiting: the part of its time that the loop waited.
        seconds: of a step, with the wait. Threads that hold the GIL make that longer, but not the wait.
        problem: why it cannot run; None if it can.
    """

    service: ReadingService
    concurrency: dict[str, int]
    waiting: float = 1.0
    seconds: float = math.inf
    problem: str | None = None


@dataclass(frozen=True)
class Tuning:
    """The setting of a loader that `tune` has found. Printed, it says why, and ends with the code that pins it.

    Attributes:
        service: the reading service.
        shards: the number of shards, which decides the order of a streamed pipe; None if any number of workers keeps
            the order.
        concurrency: calls at a time of operators, by their names.
        waiting: the part of its time that the loop waited in the trial.
        enough: whether that is at most 5%, and the loop itself is as fast as in process; without `step_seconds`, False.
        trials: all of them, in their order.
        lines: the explanation.
    """

    service: ReadingService
    shards: int | None
    concurrency: dict[str, int]
    waiting: float
    enough: bool
    trials: tuple[Trial, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


class _Search:
    """The trials of one pipe."""

    def __init__(self, pipe: Pipe[Any], step: float, cpus: float, timeout: float) -> None:
        self._pipe = pipe
        self._step = step
        self._cpus = max(1, math.floor(cpus))
        self._end = time.monotonic() + timeout
        self._trial_seconds = min(LONGEST_TRIAL, max(SHORTEST_TRIAL, timeout / 8))
        plan = Plan(resolve(pipe), seed=0, rank=0, world_size=1, shards=None)
        self._shards = plan.most_workers
        self._trials: list[Trial] = []
        self._in_time = True

    def result(self) -> Tuning:
        view = RankView(self._run(InProcess(), self._pipe, 0.0).ranks[0])
        work = view.made_ns / 1e9
        lines = [*map(with_short_code, self._introduction(view, work)), "tried"]
        for service, concurrency in self._settings(view, work):
            if self._trials and time.monotonic() > self._end:
                self._in_time = False
                break
            trial = self._tried(service, concurrency)
            self._trials.append(trial)
            calls = "".join(f", {name} with concurrency={calls}" for name, calls in concurrency.items())
            came = f"{_ms(trial.seconds)} an element"
            if self._step:
                came = f"{_ms(trial.seconds)} a step, of which the loop waits {trial.waiting:.0%}"
            lines.append(f"  {constructor_code(service)}{calls}: {trial.problem or came}")
            if self._is_enough(trial):
                break
        best = self._best()
        enough = self._is_enough(best)
        if self._step and not enough:
            lines.append(with_short_code(self._missing(view, work)))
        lines += self._code(best)
        trials = tuple(self._trials)
        return Tuning(best.service, self._shards, best.concurrency, best.waiting, enough, trials, tuple(lines))

    def _settings(self, view: RankView, work: float) -> Iterator[tuple[ReadingService, dict[str, int]]]:
        """What to try, the cheapest first."""
        yield InProcess(), {}
        calls = self._calls(view)
        if calls:
            yield InProcess(), calls
        most = self._most_workers(view)
        lanes = math.ceil(work / (UNEVEN * self._step)) if self._step else most
        for workers in dict.fromkeys((min(max(1, lanes), most), min(2 * max(1, lanes), most))):
            yield Threads(workers), {}
            yield MultiProcess(workers), {}
            if calls:
                yield Threads(workers), calls

    def _best(self) -> Trial:
        """The one with the shortest steps; without a step, the cheapest of those that are about as fast."""
        best = min(self._trials, key=lambda trial: trial.seconds)
        return best if self._step else next(trial for trial in self._trials if trial.seconds <= 1.1 * best.seconds)

    def _is_enough(self, trial: Trial) -> bool:
        """Whether the loop hardly waits, and its own part of a step is about what it is in process."""
        if not self._step or trial.problem is not None:
            return False
        alone = self._trials[0]
        longer = trial.seconds * (1 - trial.waiting) / (alone.seconds * (1 - alone.waiting))
        return trial.waiting <= MIN_WAITING and longer <= SLOWED

    def _calls(self, view: RankView) -> dict[str, int]:
        """The calls at a time of the operator with most of the work, and of those alike, if it mostly waits."""
        top = view.top
        if top is None or top.operator.concurrency is None or _needs_cpu(view):
            return {}
        alike = view.alike(top.operator)
        work = top.work.total / max(1, view.steps) / 1e9 / len(alike)
        needed = math.ceil(work / (UNEVEN * self._step)) if self._step else MAX_ADVISED
        calls = min(MAX_ADVISED, 2 ** math.ceil(math.log2(max(2, needed))))
        return {operator.name: calls for operator in alike} if calls > top.operator.concurrency else {}

    def _most_workers(self, view: RankView) -> int:
        """The most workers that CPUs and shards allow."""
        most = self._cpus if _needs_cpu(view) else MAX_ADVISED
        return most if self._shards is None else min(most, self._shards)

    def _tried(self, service: ReadingService, concurrency: dict[str, int]) -> Trial:
        try:
            report = self._run(service, with_concurrency(self._pipe, concurrency), self._step)
        except FeedpipeError as error:
            problem, _, _ = text_of(error).partition("\n")
            return Trial(service, concurrency, problem=problem)
        view = RankView(report.ranks[0])
        seconds = (view.waited_ns + view.loop_ns) / max(1, view.steps) / 1e9
        return Trial(service, concurrency, report.waiting, seconds)

    def _run(self, service: ReadingService, pipe: Pipe[Any], step: float) -> Report:
        """The report of a loop that sleeps for each element, over as many epochs as fit into a trial."""
        with Loader(pipe, service, shards=self._shards, rank=0, world_size=1) as loader:
            end, steps = math.inf, 0
            while time.monotonic() < end:
                before = steps
                for _ in loader:
                    if not steps:
                        end = time.monotonic() + self._trial_seconds
                    steps += 1
                    if step:
                        time.sleep(step)
                    if time.monotonic() >= end and (steps > MIN_STEPS or time.monotonic() >= end + LONGEST_TRIAL):
                        break
                if steps == before:
                    raise PlanError("`tune` needs a pipe with elements, and this one has none")
            return loader.report()

    # The explanation

    def _introduction(self, view: RankView, work: float) -> list[str]:
        head = f"an element is {_ms(work)} of work"
        if self._step:
            head = f"a step of the loop takes {_ms(self._step)}, and its data {_ms(work)} of work"
        if view.top is not None:
            operator, own, share = view.top
            head += f", {share:.0%} of it in {operator}, {own.cpu_share:.0%} of that on a CPU"
        order = "any number of workers keeps the order of the pipe"
        if self._shards is not None:
            order = f"`shards={self._shards}` gives the order of the pipe, and is the most workers"
        return [head, f"there are {self._cpus} CPUs; {order}"]

    def _missing(self, view: RankView, work: float) -> str:
        """What would let the loop not wait."""
        lanes, most = math.ceil(work / (UNEVEN * self._step)), self._most_workers(view)
        top = view.top
        faster = "a faster source" if top is None else f"a faster {top.operator}, {top.share:.0%} of the work"
        if lanes > most and self._shards == most:
            return f"missing: about {lanes} workers; `shards={lanes}` is another order, which the loader then keeps"
        if view.lacks_cpus:
            return f"missing: free CPUs; threads waited {view.delayed:.0%} of their work for one"
        if lanes > most:
            return f"missing: about {lanes} CPUs, and there are {self._cpus}; or {faster}"
        if not self._in_time:
            return f"missing: time for more trials, a larger `timeout`; or {faster}"
        return f"missing: {faster}, because more workers do not help"

    def _code(self, best: Trial) -> list[str]:
        lines: list[str] = []
        by_name = {name: node for node, name in names(self._pipe).items()}
        for name, calls in best.concurrency.items():
            node = by_name[name]
            tuned = node_code(Node(_concurrent(node, calls), node.inputs))
            lines.append(f"{tuned}{'' if node.call_site is None else f'  # at {node.call_site}'}")
        shards = "" if self._shards is None else f", shards={self._shards}"
        return [*dict.fromkeys(lines), f"fp.Loader(pipe, fp.{constructor_code(best.service)}{shards})"]


def _needs_cpu(view: RankView) -> bool:
    """Whether most of the work needs a CPU, also if it had to wait for one."""
    return view.top is None or view.lacks_cpus or view.top.work.cpu_share >= 0.5


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def with_concurrency(pipe: Pipe[Any], calls: Mapping[str, int]) -> Pipe[Any]:
    """The pipe with other numbers of calls at a time; its elements and their order stay.

    Args:
        calls: by the name of the operator.
    """
    copies: dict[Node, Node] = {}
    by_node = names(pipe)
    for node in walk(pipe):
        op = _concurrent(node, calls[by_node[node]]) if by_node[node] in calls else node.op
        copies[node] = type(node)(op, tuple(copies[source] for source in node.inputs), node.call_site)
    copy = copies[pipe]
    assert isinstance(copy, Pipe)
    return copy


def _concurrent(node: Node, calls: int) -> Any:
    op: Any = node.op
    return replace(op, concurrency=calls)
