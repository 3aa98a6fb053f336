"""`Epochs`: plans the epochs of a loader for the rank of this process, and owns the service that runs them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..core.code import constructor_code
from ..core.graph import Node, names, node_code, walk
from ..core.operator import READS_FOR_ALL_EPOCHS, Operator, Trait, UnitSource
from ..core.process import available_cpus, element_memory
from ..core.times import CONSUMER, LoaderTimes, StepTimes, Table, joined, worker_name
from ..engine.skips import LostLog, code_without_policy
from ..engine.stage import bind, resolve
from ..errors import ArgumentError, LoaderError, PlanError
from ..plan.findings import idle_workers, other_rows, read_again
from ..plan.fingerprint import saved_operators
from ..plan.plan import Plan, Position
from ..services.base import Executor, ReadingService, Session
from ..services.inprocess import Threads
from .ranks import Job, Rank, RankSource
from .schedule import End, Even, Schedule, unknown_length_error
from .state import Progress

if TYPE_CHECKING:
    from ..seeing.verdict import RankTimes

log = logging.getLogger("feedpipe")


class Starter(Protocol):
    """Starts a service."""

    def start(self) -> Executor: ...


class Epochs:
    """The plans and the service of a loader and its iterators; the last of these that is dropped ends the processes.

    Nothing runs before the first epoch begins. Until then the rank may change; later it is fixed. A copy or pickle has
    not begun.

    Attributes:
        times: what threads did in the epochs so far.
        segment: the steps that the ranks agreed on last, if they agree on the end of an epoch while it runs.
        lost_log: counts and records rows that are skipped; None if no operator skips any.
    """

    def __init__(
        self,
        pipe: Node,
        service: ReadingService,
        starter: Starter,
        ranks: RankSource,
        *,
        seed: int,
        shards: int | None,
        steps: int | None,
        even: Even,
    ) -> None:
        self.pipe = pipe
        self.service = service
        self._starter = starter  # the service, or what also moves its elements to a device
        self.ranks = ranks
        self.steps = steps
        self._seed = seed
        self.shards = shards
        self._even: Even = even
        self.pads = even == "pad"  # ranks repeat elements to take as many as others
        self._schedule: Schedule | None = None
        self._executor: Executor | None = None
        self._job: Job | None = None
        self._is_shared = False  # all ranks have the listings and types that the first one has resolved
        self.segment = 1
        self.times = LoaderTimes()
        self.lost_log = LostLog.of(pipe)

    def check_service(self) -> None:
        """Checks that the service can run the pipe."""
        for node in () if self.service.global_generators else walk(self.pipe):
            if node.op.trait is Trait.MAIN_THREAD:
                service = constructor_code(self.service)
                message = (
                    f"`{node_code(node)}` cannot run with `{service}`, because threads share the global generators; "
                    "give `rng=True`, for a generator of its own in each call, or use `MultiProcess`"
                )
                raise PlanError(message, at=node.call_site)

    def check_ranks(self) -> None:
        """Checks the ranks early, without reading anything if they can run the pipe."""
        rank = self.ranks.certain()
        if rank is None or rank.world_size == 1:
            return
        self.ranks.check_mesh()
        if not any(_reads_in_plan(node.op) for node in walk(self.pipe)):
            self.schedule(Progress()).end(Progress())
        elif (
            self._even is not None
            and self.steps is None
            and _has_unknown_length(self.pipe)
            and self.ranks.side_group() is None
        ):
            raise unknown_length_error(bind(resolve(self.pipe)), rank.world_size)

    def schedule(self, progress: Progress) -> Schedule:
        """The schedule of a loader that stands at `progress`."""
        if self._executor is not None and self._schedule is not None:
            return self._schedule
        return self._schedule_of_now(progress)

    @property
    def memory(self) -> int:
        """The bytes of elements that a rank may hold: those of its service, or the default of services."""
        return element_memory(getattr(self.service, "memory", None))

    def job(self) -> Job | None:
        """The ranks of an epoch that begins now; None for a single one, or if they do not communicate."""
        if self._job is None and self.ranks.ask().world_size > 1:
            group = self.ranks.side_group()
            self._job = None if group is None else Job(group)
        return self._job

    def begin(self, progress: Progress, job: Job | None) -> tuple[Schedule, End]:
        """The schedule of an epoch that begins now, and its end. The first epoch starts the service."""
        self._check_one_view(job)
        if self.lost_log is not None:
            self.lost_log.open()
        if job is not None:
            job.begin(None if self.times.epoch is None else self.times.epoch.consumer)
        if self._executor is not None:
            return self._compared_schedule(progress, job)
        executor = self._starter.start()  # before the first look at the data, so that processes start meanwhile
        try:
            schedule, end = self._compared_schedule(progress, job)
        except BaseException:
            executor.close()
            raise
        self._executor = executor
        return schedule, end

    def _compared_schedule(self, progress: Progress, job: Job | None) -> tuple[Schedule, End]:
        """The schedule and its end, which are the same on all ranks."""
        if job is not None:
            self._resolve_once(job)
        schedule = self._schedule_of_now(progress)
        if job is not None:
            job.compare(schedule.epoch_start(progress))
        return schedule, schedule.end(progress, warns=True)

    def ended(self, schedule: Schedule, progress: Progress) -> None:
        """Notes that an epoch has come to its end."""
        if (times := self.times.epoch) is not None and log.isEnabledFor(logging.INFO):
            from ..seeing.verdict import RankView, verdict_of

            verdict = verdict_of([RankView(self._rank_times(StepTimes(times.own_steps), joined(times.tables()), {}))])
            if verdict.bottleneck is not None:
                log.info("epoch %d: %s", progress.epoch, verdict.text)

    def rank_times(self, skipped: Mapping[str, int]) -> RankTimes:
        """What this rank has counted in all epochs, for a report."""
        return self._rank_times(self.times.steps, self.times.tables(), skipped)

    def _rank_times(self, steps: StepTimes, tables: list[Table], skipped: Mapping[str, int]) -> RankTimes:
        from ..seeing.verdict import RankTimes, known_operators

        rank = self.last_rank
        own = {table.process for table in tables if table.thread == CONSUMER}
        return RankTimes(
            rank=rank.number,
            world_size=rank.world_size,
            workers=self.service.workers,
            in_threads=any(table.process in own for table in tables if table.thread == worker_name(0)),
            cpus=int(max(1, available_cpus())),
            most_workers=None if self._schedule is None else self._schedule.plan.most_workers,
            operators=known_operators(self.pipe),
            skipped={name: skipped.get(code_without_policy(node), 0) for node, name in names(self.pipe).items()},
            steps=steps,
            tables=tables,
        )

    def restore(self, pipe: str, schedule: Callable[[], Schedule]) -> Schedule:
        """The schedule for a state whose fingerprint is `pipe`, which may fix listings and types of operators."""
        operators = saved_operators(pipe, self.pipe)
        if not operators:
            return schedule()
        resolve(self.pipe, replaced_ops=operators)
        self._is_shared = False
        before = self._schedule
        return self._make_schedule(self.ranks.ask(), self.shards if before is None else before.plan.shards)

    def resume(self, schedule: Schedule, shards: int) -> Schedule:
        """The schedule for a state with this number of shards; `use` makes it that of the next epochs."""
        return schedule if shards == schedule.plan.shards else self._make_schedule(schedule.rank, shards)

    def use(self, schedule: Schedule) -> None:
        """Runs the next epochs by another schedule of the same rank."""
        self._schedule = schedule

    def open(self, plan: Plan, position: Position, data_pass: int) -> Session:
        """Runs a plan; an epoch has begun."""
        assert self._executor is not None, "the first epoch starts the service"
        return self._executor.open(plan, position, data_pass)

    @property
    def last_rank(self) -> Rank:
        """The rank that has run, or would run now."""
        return self._schedule.rank if self._executor is not None and self._schedule else self.ranks.ask()

    def rank_code(self) -> list[str]:
        """The rank as `repr` shows it; nothing for a single one."""
        try:
            rank = self.last_rank
        except ArgumentError:
            return ["rank not known yet"]
        return [str(rank)] if rank.world_size > 1 else []

    def close(self) -> None:
        """Ends all threads and processes."""
        if self._executor is not None:
            self._executor.close()

    def __getstate__(self) -> dict[str, object]:
        state = {**self.__dict__, "_schedule": None, "_executor": None, "_job": None, "_is_shared": False}
        # Each process counts for itself, and writes files of its own.
        return {**state, "times": LoaderTimes(), "lost_log": LostLog.of(self.pipe)}

    def _resolve_once(self, job: Job) -> None:
        """Fixes listings and types before the first epoch: the first rank looks at the files and tells the others."""
        if self._is_shared or not any(_looks_at_files(node.op) for node in walk(self.pipe)):
            return
        self._is_shared = True
        one_view = {node for node in walk(self.pipe) if _one_view_repair(node.op) is not None}
        if not job.all_equal("files", files_digest(self.pipe)):
            if one_view:
                raise _one_view_error(one_view.pop(), "and these ranks have different pipes")
            return
        packed = job.share("listing", packed_fields(self.pipe, resolve(self.pipe)) if job.rank == 0 else None)
        operators = resolved_operators(self.pipe, packed)
        if missing := one_view - {*operators}:
            raise _one_view_error(missing.pop(), "which reaches them as a pickle, so no argument may be a lambda")
        if job.rank == 0:
            return
        replaced = {node: op for node, op in operators.items() if node in one_view}
        resolve(self.pipe, operators, replaced)  # the pipe keeps it
        if replaced and self._schedule is not None:  # that of what this rank had resolved by itself
            self._schedule = self._make_schedule(self._schedule.rank, self._schedule.plan.shards)

    def _check_one_view(self, job: Job | None) -> None:
        """Checks that ranks that must share listings and types can do so."""
        if job is None and self.ranks.ask().world_size > 1:
            for node in walk(self.pipe):
                if _one_view_repair(node.op) is not None:
                    raise _one_view_error(node, "and these ranks do not communicate")

    def _schedule_of_now(self, progress: Progress) -> Schedule:
        """The schedule of the rank that this process has now."""
        rank, schedule = self.ranks.ask(), self._schedule
        if schedule is not None and schedule.rank != rank:
            if self._executor is not None or progress.begun:
                raise LoaderError(
                    f"this loader began its epochs as {schedule.rank}, and this process is now {rank}; make a new "
                    "loader, or give it its first element or its state only when the rank is certain"
                )
            schedule = None
        if schedule is None:
            schedule = self._schedule = self._make_schedule(rank, self.shards)
        return schedule

    def _make_schedule(self, rank: Rank, shards: int | None) -> Schedule:
        workers = self.service.workers
        plan = Plan(
            resolve(self.pipe),
            seed=self._seed,
            rank=rank.number,
            world_size=rank.world_size,
            shards=shards,
        )
        in_threads = isinstance(self.service, Threads)
        if rank.number == 0:
            costs = *read_again(plan, workers, in_threads=in_threads), *idle_workers(plan, workers)
            for finding in (*costs, *other_rows(plan, of_chains=True)):
                finding.warn()
        communicates = rank.world_size > 1 and self.ranks.side_group() is not None
        return Schedule(plan, self.steps, self._even, communicates=communicates)


def _reads_in_plan(op: Operator) -> bool:
    """Whether a plan may read something for this operator: a listing, headers, or all rows to count them."""
    return _looks_at_files(op) or op.trait in READS_FOR_ALL_EPOCHS


def _one_view_error(node: Node, reason: str) -> PlanError:
    return PlanError(
        f"all ranks must run what the first of them finds for `{node_code(node)}`, {reason}; initialise a process "
        f"group with the same pipe on all ranks, or {_one_view_repair(node.op)}",
        at=node.call_site,
    )


def _one_view_repair(op: Operator) -> str | None:
    return op.one_view_repair() if isinstance(op, UnitSource) else None


def _looks_at_files(op: Operator) -> bool:
    """Whether `resolve` may fix something for this operator."""
    return type(op).resolve is not Operator.resolve


def _has_unknown_length(root: Node) -> bool:
    """Whether the length of a pipe is unknown whatever its files contain. Reads nothing.

    In a chain, operators after one without a length can only ask that one.
    """
    node = root
    while len(node.inputs) == 1 and node.op.trait not in READS_FOR_ALL_EPOCHS:
        if type(node.op).length is Operator.length:
            return bind(root).length is None
        (node,) = node.inputs
    return False


# Listings, types and units that one rank resolves for all.


def files_digest(root: Node) -> bytes:
    """A digest of the operators whose listing, types or units one rank may fix for all.

    Ranks that have the same digest see the same files: paths and options are part of it. Functions of the user are not.
    """
    digest = blake2b(digest_size=16)
    for number, op in _operators(root):
        digest.update(f"{number} {op.kind} ".encode())
        digest.update(_pickled(op) or b"")
    return digest.digest()


def packed_fields(root: Node, resolved: Node) -> bytes:
    """The fields that `resolve` fixed in the operators of the graph `root`, for `resolved_operators`."""
    ops = [node.op for node in walk(resolved)]
    packed: dict[int, bytes] = {}
    for number, op in _operators(root):
        fixed = {f.name: getattr(ops[number], f.name) for f in fields(op) if f.init} if ops[number] is not op else {}
        changed = {name: value for name, value in fixed.items() if value is not getattr(op, name)}
        if changed and ops[number].trait is not Trait.FOLLOWS and _pickled(op) is not None:
            try:
                packed[number] = pickle.dumps(changed)
            except Exception:  # such as a file system of the user; each rank then looks at the files itself
                continue
    return pickle.dumps(packed)


def resolved_operators(root: Node, packed: bytes) -> Mapping[Node, Operator]:
    """The operators of the graph `root` that another rank has resolved."""
    nodes = list(walk(root))
    contents: dict[int, bytes] = pickle.loads(packed)
    return {nodes[n]: _with_fields(nodes[n].op, pickle.loads(content)) for n, content in contents.items()}


def _with_fields(op: Any, changed: dict[str, object]) -> Operator:
    return cast("Operator", replace(op, **changed))


def _operators(root: Node) -> Iterator[tuple[int, Any]]:
    """The operators that `resolve` may change, with their numbers. All are dataclasses."""
    for number, node in enumerate(walk(root)):
        if type(node.op).resolve is not Operator.resolve:
            yield number, node.op


def _pickled(op: Operator) -> bytes | None:
    """The pickle of an operator; None if it has none, or holds data: each rank then resolves it by itself."""
    try:
        return pickle.dumps(op, 5, buffer_callback=_refuse)
    except Exception:  # whatever the user's classes raise
        return None


def _refuse(buffer: pickle.PickleBuffer) -> None:
    raise ValueError("an operator with arrays in it says more than which files it reads")
