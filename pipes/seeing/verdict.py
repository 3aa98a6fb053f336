"""The verdict: who holds a training loop back, from what the threads of a loader did."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from ..core.graph import Node, names, node_code
from ..core.times import CONSUMER, WAITS, SlotTimes, StepTimes, Table, worker_name
from ..errors import CallSite

MIN_STEPS, MIN_NS, MIN_WORKER_NS = 20, 2_000_000_000, 1_000_000_000
"""A shorter run says nothing: workers have just begun, and queues fill."""
MIN_WAITING, MIN_WAIT_NS = 0.05, 50_000
"""A loop that waits less, or a shorter time for each element, does not wait for data."""
UNEVEN = 0.85
"""The part of its time for which a worker works if the loop takes all it makes: rows are uneven, waking up takes time.
"""
GIL_NS = 1_000_000
"""If a thread needs as long to look at what the system says of it, which takes microseconds, others hold the GIL."""
MAX_ADVISED = 16
"""The most workers or calls that a verdict advises."""

Kind: TypeAlias = Literal["operator", "storage", "transport", "shard", "rank", "gil", "cpus"]
"""What holds a loop back:

    operator    the work of an operator
    storage     an operator waits for bytes
    transport   elements on their way from the workers
    shard       one worker has more work than the others
    rank        another rank is slower
    gil         threads that take turns to run Python
    cpus        more threads want to run than there are free CPUs
"""


class Bottleneck(NamedTuple):
    """What holds a training loop back.

    Attributes:
        kind: see `Kind`.
        operator: the code of the operator that has most of the work.
        where: the line that put it into the chain.
        share: its part of the work, from 0 to 1.
        repair: what to do.
    """

    kind: Kind
    operator: str
    where: CallSite | None
    share: float
    repair: str


class KnownOperator(NamedTuple):
    """An operator of the user's graph.

    Attributes:
        name: its key in tables.
        code: its call.
        where: the line of that.
        concurrency: of its calls; None if it has no such argument.
    """

    name: str
    code: str
    where: CallSite | None
    concurrency: int | None

    def __str__(self) -> str:
        return f"`{self.code}`" + ("" if self.where is None else f" at {self.where}")


class RankTimes(NamedTuple):
    """What one rank has counted.

    Attributes:
        rank, world_size: of the job.
        workers: beside the consumer.
        in_threads: whether workers are threads of the consumer's process.
        cpus: those that the rank may use.
        most_workers: the most that would have work; None if any number has.
        operators: of the graph, in its order.
        skipped: rows that failed in the last epoch, by the name of the operator.
        steps: of the loop.
        tables: of the threads.
    """

    rank: int
    world_size: int
    workers: int
    in_threads: bool
    cpus: int
    most_workers: int | None
    operators: list[KnownOperator]
    skipped: dict[str, int]
    steps: StepTimes
    tables: list[Table]


class OperatorWork(NamedTuple):
    """The work of one operator, in nanoseconds after the start.

    Attributes:
        own: its code ran.
        cpu: of that, on a CPU.
        storage: it waited for bytes.
        calls: it waited for its calls.
    """

    own: float = 0.0
    cpu: float = 0.0
    storage: float = 0.0
    calls: float = 0.0

    @property
    def total(self) -> float:
        return self.own + self.storage + self.calls

    @property
    def cpu_share(self) -> float:
        return self.cpu / self.total if self.total else 0.0

    def plus(self, other: OperatorWork) -> OperatorWork:
        return OperatorWork(*map(sum, zip(self, other, strict=True)))


class Top(NamedTuple):
    """The operator with most of some work, together with those alike: its work, and its share of all."""

    operator: KnownOperator
    work: OperatorWork
    share: float


def known_operators(root: Node) -> list[KnownOperator]:
    """The operators of a graph, in its order."""
    operators: list[KnownOperator] = []
    for node, name in names(root).items():
        if node.op.call() is not None:
            takes_calls = node.op.kind in ("map", "decode")
            concurrency = int(getattr(node.op, "concurrency", 1)) if takes_calls else None
            operators.append(KnownOperator(name, node_code(node), node.call_site, concurrency))
    return operators


class RankView:
    """What the times of a rank mean."""

    def __init__(self, seen: RankTimes) -> None:
        self.seen = seen
        self.tables = {table.thread: table for table in seen.tables}
        self.consumer = self.tables.get(CONSUMER)
        self.makers = [table for table in seen.tables if table.blocks]
        self.steps = seen.steps.steps

    # The loop

    @cached_property
    def loop_ns(self) -> int:
        return 0 if self.consumer is None else _slot(self.consumer, "loop").ns

    @cached_property
    def waited_ns(self) -> int:
        return 0 if self.consumer is None else max(0, self.consumer.wall_ns - self.loop_ns)

    @property
    def waiting(self) -> float:
        """The part of its time that the loop waits for data."""
        return self.waited_ns / max(1, self.waited_ns + self.loop_ns)

    @property
    def device_steps(self) -> tuple[int, int]:
        """Steps before which a GPU ran dry, and steps of which that is known."""
        events = {} if self.consumer is None else self.consumer.events
        dry = events.get(("dry", ""), 0)
        return dry, dry + events.get(("busy", ""), 0)

    @cached_property
    def ranks_ns(self) -> int:
        """The part of its waits in which the loop waited for other ranks, and for no data of its own."""
        return 0 if self.consumer is None else _slot(self.consumer, "ranks").ns

    @property
    def data_ns(self) -> float:
        """The time for a step in which the loop waited for data of its own."""
        return (self.waited_ns - self.ranks_ns) / max(1, self.steps)

    @property
    def step_ns(self) -> float:
        """What the loop takes for a step, without the wait."""
        return self.loop_ns / max(1, self.steps)

    @property
    def is_short(self) -> bool:
        """Whether the loop, or the last of the workers, has just begun; one may have ended long ago."""
        consumer = self.consumer
        if consumer is None or self.steps < MIN_STEPS or consumer.wall_ns < MIN_NS:
            return True
        begins = [table.began + table.clock for table in self.makers if table.thread != CONSUMER]
        return consumer.until + consumer.clock - max(begins, default=0) < MIN_WORKER_NS

    @property
    def is_fed(self) -> bool:
        """Whether the loop does not wait for data."""
        return self.waiting < MIN_WAITING or self.waited_ns / max(1, self.steps) < MIN_WAIT_NS

    # The threads

    @cached_property
    def made_ns(self) -> float:
        """The work for one step, of all threads together."""
        return sum(map(busy_ns, self.makers)) / max(1, self.steps)

    @cached_property
    def limiting(self) -> list[Table]:
        """The threads at the end of the waits: those that the loop waits for, or those that these wait for."""
        names = self._follow(CONSUMER, set()) & self.tables.keys()
        return [self.tables[name] for name in sorted(names)]

    @property
    def workers(self) -> dict[str, Table]:
        names = map(worker_name, range(self.seen.workers))
        return {name: self.tables[name] for name in names if name in self.tables}

    def _follow(self, name: str, seen: set[str]) -> set[str]:
        table = self.tables.get(name)
        if table is None or name in seen:
            return set()
        seen.add(name)
        waits: Counter[str] = Counter()
        for (state, of), slot in table.slots.items():
            if state in ("input", "worker"):
                waits[of] += slot.ns
        if not waits or busy_ns(table) >= waits.total():
            return {name}
        others = {of for of, ns in waits.items() if ns >= 0.1 * waits.total()}
        if others & ({"workers"} | self.workers.keys()):  # several work, and one is waited for
            others |= {worker for worker, other in self.workers.items() if activity(other) > 0.5}
        return set().union(*(self._follow(other, seen) for other in others)) or {name}

    @cached_property
    def work(self) -> dict[str, OperatorWork]:
        """The work of each operator, by name, in all threads."""
        return self.work_of(self.makers)

    @cached_property
    def limiting_work(self) -> dict[str, OperatorWork]:
        """The same in the threads that hold the others back."""
        return self.work_of([table for table in self.limiting if table.blocks]) or self.work

    def work_of(self, tables: Iterable[Table]) -> dict[str, OperatorWork]:
        known = {operator.name for operator in self.seen.operators}
        work: defaultdict[str, OperatorWork] = defaultdict(OperatorWork)
        for table in tables:
            made = {key: slot for key, slot in table.slots.items() if key[0] in ("operator", "storage", "calls")}
            seen = {key: slot for key, slot in made.items() if key[0] != "operator" or key[1] in known}
            # Blocks that are not measured have no slot but that of the engine, and do what the others do.
            whole = sum(slot.ns for slot in made.values()) + _slot(table, "engine").ns
            scale = whole / max(1, sum(slot.ns for slot in seen.values()))
            for (state, of), slot in seen.items():
                ns = slot.ns * scale
                if state == "operator":
                    own = OperatorWork(ns, ns * slot.cpu_ns / max(1, slot.measured_ns))
                elif state == "storage":
                    own = OperatorWork(storage=ns)
                else:
                    own = OperatorWork(calls=ns, cpu=ns * self._cpu_of_calls(of))
                work[of] = work[of].plus(own)
        return self._attributed(work, known)

    def alike(self, operator: KnownOperator) -> list[KnownOperator]:
        """The operators that the same call of the user has made: two, if it is in a function that is called twice."""
        if operator.where is None:
            return [operator]
        return [other for other in self.seen.operators if (other.code, other.where) == (operator.code, operator.where)]

    def threads_of_calls(self, operator: KnownOperator) -> list[Table]:
        """The threads, in each process, that make the calls of an operator and of those alike."""
        keys = {("operator", other.name) for other in self.alike(operator)}
        return [table for table in self.seen.tables if not table.blocks and not keys.isdisjoint(table.slots)]

    def most(self, work: Mapping[str, OperatorWork]) -> Top | None:
        total = sum(own.total for own in work.values())
        if not total:
            return None
        joined = {
            operator: reduce(OperatorWork.plus, (work.get(each.name, OperatorWork()) for each in self.alike(operator)))
            for operator in self.seen.operators
        }
        operator = max(joined, key=lambda operator: joined[operator].total)
        return Top(operator, joined[operator], joined[operator].total / total)

    def _cpu_of_calls(self, operator: str) -> float:
        """The part of their time for which the calls of an operator, in threads of their own, had a CPU."""
        key: tuple[Literal["operator"], str] = "operator", operator
        calls = [table.slots[key] for table in self.seen.tables if not table.blocks and key in table.slots]
        return min(1.0, sum(slot.cpu_ns for slot in calls) / max(1, sum(slot.measured_ns for slot in calls)))

    def _attributed(self, work: Mapping[str, OperatorWork], known: set[str]) -> dict[str, OperatorWork]:
        """Waits before an operator has begun belong to the one that has most of those that came later."""
        result = defaultdict(OperatorWork, {of: own for of, own in work.items() if of in known})
        if not self.seen.operators or len(result) == len(work):
            return result
        first = self.seen.operators[0].name
        several = next((op.name for op in self.seen.operators if (op.concurrency or 1) > 1), first)
        reader = max(
            (of for of, own in result.items() if own.storage), key=lambda of: result[of].storage, default=first
        )
        caller = max((of for of, own in result.items() if own.calls), key=lambda of: result[of].calls, default=several)
        for of in work.keys() - known:
            result[reader] = result[reader].plus(OperatorWork(storage=work[of].storage))
            result[caller] = result[caller].plus(OperatorWork(calls=work[of].calls))
        return result

    @property
    def top(self) -> Top | None:
        """The operator with most of the work of the threads that hold the others back; see `most`."""
        return self.most(self.limiting_work)

    @cached_property
    def _observed(self) -> list[Table]:
        """The threads that hold the others back: if they wait for calls, those that make them."""
        top = self.top
        calls = self.threads_of_calls(top.operator) if top is not None and top.work.calls > top.work.own else []
        return [table for table in calls or self.limiting if table.system.observed_ns]

    @cached_property
    def delayed(self) -> float:
        """The part of their work for which threads waited for a CPU."""
        return self._part_of_work(sum(table.system.delayed_ns for table in self._observed))

    @cached_property
    def on_cpu(self) -> float:
        """The part of their work for which threads had a CPU."""
        return self._part_of_work(sum(table.system.cpu_ns for table in self._observed))

    def _part_of_work(self, ns: int) -> float:
        busy = sum(table.system.observed_ns * busy_ns(table) / max(1, table.wall_ns) for table in self._observed)
        return min(1.0, ns / busy) if busy else 0.0

    @property
    def lacks_cpus(self) -> bool:
        return self.delayed > 0.3 and self.on_cpu + self.delayed > 0.6

    # Forecasts

    def forecast(self, workers: int | None = None, concurrency: int | None = None) -> float:
        """The part of its time that the loop would wait, with other workers or other calls of the top operator."""
        top = self.top
        if top is None or not self.steps:
            return self.waiting
        workers = self.seen.workers if workers is None else workers
        if concurrency is not None:
            return self._with_calls(top.operator, top.work, concurrency, workers)
        if workers == self.seen.workers:
            return self.waiting
        if workers == 0:
            return self.made_ns / (self.made_ns + self.step_ns)
        lanes = self._with_work(workers)
        return _stall(self.made_ns, self.step_ns, min(lanes, self.seen.cpus) if top.work.cpu_share > 0.5 else lanes)

    def _with_work(self, workers: int) -> int:
        """The workers that have work, of so many."""
        return workers if self.seen.most_workers is None else min(workers, self.seen.most_workers)

    def _with_calls(self, operator: KnownOperator, own: OperatorWork, concurrency: int, workers: int) -> float:
        own_ns, alike = own.total / self.steps, len(self.alike(operator))
        calls_now = alike * (operator.concurrency or 1)
        rest = max(0.0, self.made_ns - own_ns)
        if (operator.concurrency or 1) > 1 and own.calls > own.own:  # its calls run all the time
            own_ns = calls_now * max(1, self.seen.workers) * (self.step_ns + self.waited_ns / self.steps)
        stall = _stall(own_ns, self.step_ns, alike * concurrency * max(1, workers))
        return stall if workers else max(stall, rest / (rest + self.step_ns))

    @property
    def advised_workers(self) -> int | None:
        """The workers with which the loop would hardly wait, or the most that make sense; None if more are no use."""
        top = self.top
        if top is None or self.lacks_cpus:
            return None
        most = self.seen.cpus if top.work.cpu_share > 0.5 else MAX_ADVISED
        needed = math.ceil(self.made_ns / max(1.0, UNEVEN * self.step_ns))
        advised = self._with_work(min(max(2, needed), most))
        return advised if advised > self.seen.workers and self.forecast(advised) < self.waiting - 0.05 else None


def _stall(made: float, loop: float, lanes: int) -> float:
    return max(0.0, 1 - UNEVEN * loop * lanes / made) if made else 0.0


def _slot(table: Table, state: str) -> SlotTimes:
    return next((slot for key, slot in table.slots.items() if key[0] == state), SlotTimes())


def busy_ns(table: Table) -> int:
    """The time of a thread without its waits for other threads, and without the loop."""
    return table.wall_ns - sum(slot.ns for (state, _), slot in table.slots.items() if state in WAITS or state == "loop")


def take_turns(tables: Iterable[Table]) -> bool:
    """Whether the threads of a process wait for its GIL, which one of them has, or has while it waits for a CPU."""
    seen = [table for table in tables if table.system.observed_ns]
    on_cpu = sum(table.threads * table.system.cpu_ns / table.system.observed_ns for table in seen)
    ready = on_cpu + sum(table.threads * table.system.delayed_ns / table.system.observed_ns for table in seen)
    look_ns = sum(table.system.looks_ns for table in seen) / max(1, sum(table.system.looks for table in seen))
    return look_ns >= GIL_NS and ready >= 0.5 and on_cpu <= 1.3


def activity(table: Table) -> float:
    """The part of its time for which a worker does not wait for its consumer."""
    idle = sum(slot.ns for (state, _), slot in table.slots.items() if state in ("consumer", "memory"))
    return 1 - idle / max(1, table.wall_ns)


# The rules


class Verdict(NamedTuple):
    """One sentence or two, and who is to blame."""

    text: str
    bottleneck: Bottleneck | None = None


def verdict_of(views: list[RankView]) -> Verdict:
    """The verdict on a rank, or on all ranks of a job."""
    if len(views) > 1:
        return _verdict_of_job(views)
    (view,) = views
    if view.seen.world_size == 1:
        return _verdict_of_rank(view)
    verdict = _verdict_of_rank(view, f"rank {view.seen.rank}")
    if verdict.bottleneck is None:
        return verdict
    return Verdict(f"{verdict.text}. Another rank may hold all of them back: `fp.gather_report(loader)` tells")


def _verdict_of_job(views: list[RankView]) -> Verdict:
    if any(view.is_short for view in views):
        return Verdict(f"too short to say: {min(view.steps for view in views)} steps")
    work = median(view.made_ns for view in views)
    waits = median(view.data_ns for view in views)
    slowest = max(views, key=lambda view: view.made_ns)
    verdict = _verdict_of_rank(slowest, f"rank {slowest.seen.rank}")
    cause, top = verdict.bottleneck, slowest.top
    if slowest.made_ns > 1.5 * work and slowest.data_ns >= 2 * waits and cause is not None and top is not None:
        text = (
            f"rank {slowest.seen.rank} holds the others back: its data take {_ms(slowest.made_ns)} a step, where the "
            f"median of the ranks is {_ms(work)}; {top.operator} has {top.share:.0%} of its work"
        )
        repair = f"look at the data and the machine of rank {slowest.seen.rank}; {cause.repair}"
        return Verdict(text, cause._replace(kind="rank", repair=repair))
    return _verdict_of_rank(max(views, key=lambda view: view.data_ns), "the slowest rank")


def _verdict_of_rank(view: RankView, who: str = "the training loop") -> Verdict:
    seconds = 0 if view.consumer is None else view.consumer.wall_ns / 1e9
    if view.is_short:
        return Verdict(f"too short to say: {view.steps} steps in {seconds:.1f} s")
    if view.is_fed:
        waits = f"{who} waits {view.waiting:.0%} for it{_dry_device(view)}"
        return Verdict(f"the data is not the bottleneck: {waits}; a step takes {_ms(view.step_ns)}")
    head = f"{who} waits {view.waiting:.0%} for data{_dry_device(view)}"
    if view.ranks_ns > 0.5 * view.waited_ns:
        share = view.ranks_ns / view.waited_ns
        text = f"{head}, {share:.0%} of that for other ranks, so this rank is not the slowest"
        return Verdict(f"{text}: `fp.gather_report(loader)` names the one that is")
    top = view.top
    if top is None:
        reason = "no block after the first is measured yet" if view.makers else "their service does not tell"
        return Verdict(f"{head}; nothing is known of what makes them, because {reason}")
    kind, text, repair = _cause(view, top)
    if view.lacks_cpus:
        kind = "cpus"
        text = (
            f"The loader has too few free CPUs: its threads wait {view.delayed:.0%} of their work for one. Otherwise: "
            f"{text}"
        )
        repair = (
            "run fewer processes on this machine, take a larger one, or raise the limit of the container "
            f"(`docker run --cpus`, `resources.limits.cpu`); {repair}"
        )
    return Verdict(f"{head}. {text}", Bottleneck(kind, top.operator.code, top.operator.where, top.share, repair))


def _dry_device(view: RankView) -> str:
    """How often the GPU waits, whatever the loop does: it has work of its own for some time."""
    dry, steps = view.device_steps
    return f", and the GPU ran dry in {dry / steps:.0%} of the steps" if steps else ""


class _Cause(NamedTuple):
    kind: Kind
    text: str
    repair: str


def _cause(view: RankView, top: Top) -> _Cause:
    """The first rule that fits."""
    rules = (_uneven_worker, _transport, _gil, _storage)
    return next((cause for rule in rules if (cause := rule(view, top)) is not None), _work_of_operator(view, top))


def _uneven_worker(view: RankView, top: Top) -> _Cause | None:
    consumer, workers = view.consumer, view.workers
    if consumer is None or len(workers) < 2:
        return None
    waits = {name: consumer.slots.get(("worker", name), SlotTimes()).ns for name in workers}
    slow = max(waits, key=lambda name: waits[name])
    worked = {name: activity(table) * table.wall_ns for name, table in workers.items()}  # one may have ended early
    least = min(worked.values()) / max(1, worked[slow])
    if waits[slow] <= 0.75 * sum(waits.values()) or activity(workers[slow]) <= 0.6 or least >= 0.6:
        return None
    return _Cause(
        "shard",
        f"{slow} holds the others back, one of which has worked {least:.0%} as long; its work is mostly {top.operator}",
        "divide the data evenly: more and smaller files, `shards=`, or a shuffle before the slow operator",
    )


def _transport(view: RankView, top: Top) -> _Cause | None:
    if view.consumer is None:
        return None
    copied = _slot(view.consumer, "device").ns
    if copied > 0.5 * view.waited_ns:
        return _Cause(
            "transport",
            f"copying elements to the device holds it back: {copied / view.waited_ns:.0%} of the wait",
            "make elements smaller: a smaller dtype, or fewer columns",
        )
    if not view.seen.workers or view.seen.in_threads:
        return None
    carried = sum(_slot(table, "send").ns for table in view.workers.values()) + _slot(view.consumer, "receive").ns
    busy = sum(map(busy_ns, view.makers))
    if carried <= 0.8 * top.work.total or carried <= 0.3 * busy:
        return None
    return _Cause(
        "transport",
        f"carrying elements from the workers holds it back: {carried / max(1, busy):.0%} of their work",
        "make elements smaller (a smaller dtype, `collate` in the worker), give `memory=`, or use `fp.Threads`",
    )


def _gil(view: RankView, top: Top) -> _Cause | None:
    workers = view.workers
    if top.work.calls > top.work.own:  # of each pool of threads, one table
        pools = [[table] for table in view.threads_of_calls(top.operator) if table.system.observed_ns]
        number = max((pool[0].threads for pool in pools), default=0)
        who, fewer_calls = f"its {number} calls at a time", ", and fewer calls at a time"
    else:
        pools = [list(workers.values())] if view.seen.in_threads else []
        number = len(workers)
        who, fewer_calls = f"{number} threads", ""
    work = (busy_ns(table) >= 0.6 * table.wall_ns for pool in pools for table in pool)
    if number < 2 or not pools or not all(work) or not all(map(take_turns, pools)):
        return None
    repair = f"use `fp.MultiProcess({max(2, view.seen.workers)})`{fewer_calls}"
    return _Cause("gil", f"{top.operator} holds the GIL, so {who} work like one", repair)


def _storage(view: RankView, top: Top) -> _Cause | None:
    if top.work.storage <= 0.5 * top.work.total:
        return None
    return _Cause(
        "storage",
        f"{top.operator} holds it back: {top.share:.0%} of the work, most of which is to wait for storage"
        f"{_with_workers(view)}",
        "give `cache=fp.FileCache(...)` for later epochs, make fewer and larger files, or use more workers",
    )


def _work_of_operator(view: RankView, top: Top) -> _Cause:
    operator, cpu = top.operator, top.work.cpu_share
    text = f"{operator} holds it back: {top.share:.0%} of the work, {cpu:.0%} of that on a CPU"
    sleeps = cpu < 0.5 and not view.lacks_cpus
    more_calls = _with_concurrency(view, operator) if sleeps and operator.concurrency is not None else ""
    repair = f"make `{operator.code}` faster"
    if more_calls:
        repair = "it mostly waits, so let several of its calls run at a time: `concurrency=`"
    elif (advised := view.advised_workers) is not None:
        repair = f"use more workers: `workers={advised}`; or {repair}"
    return _Cause("operator", text + (more_calls or _with_workers(view)), repair)


def _with_workers(view: RankView) -> str:
    advised = view.advised_workers
    return "" if advised is None else f"; with workers={advised} the loop would wait {about(view.forecast(advised))}"


def _with_concurrency(view: RankView, operator: KnownOperator) -> str:
    for calls in (2, 4, 8, MAX_ADVISED):
        if calls > (operator.concurrency or 1) and view.forecast(concurrency=calls) < MIN_WAITING:
            break
    stall = view.forecast(concurrency=calls)
    return f"; with concurrency={calls} the loop would wait {about(stall)}" if stall < view.waiting - 0.05 else ""


def about(share: float) -> str:
    return "hardly at all" if share < 0.05 else f"about {5 * round(20 * share)}%"


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms"
