"""`InProcess` and `Threads`: run a plan in this process."""

from __future__ import annotations

import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from threading import Condition, RLock, Thread
from typing import TypeAlias

from ..core.block import nbytes
from ..core.checks import check_int, methods_explain_wrong_arguments
from ..core.ending import ProcessResources, RunEnded
from ..core.process import element_memory
from ..core.times import Clock, consumer_clock, here, thread_of_worker, worker_name
from ..errors import LoaderError, WorkerError
from ..plan.plan import Plan, Position, ShardRun
from ..plan.spans import SpanStart
from .base import PlanService, ShardEnd, Step, check_arguments
from .turns import DEBUG, DEFAULT, Assignment, Merge, Mode, NextSpan, PrefetchLimit, run_rank, run_shards, run_spans
from .turns import Item as PlanItem


@methods_explain_wrong_arguments
@dataclass(frozen=True)
class InProcess:
    """Runs a pipe in this process.

    Args:
        debug: run everything in the calling thread, one row at a time. Breakpoints work, and an error comes exactly
            at its row.

    Example:
        >>> import feedpipe as fp
        >>> list(fp.Loader(fp.from_sequence("ab"), fp.InProcess(debug=True)))
        ['a', 'b']
    """

    debug: bool = False

    @property
    def workers(self) -> int:
        return 0

    @property
    def global_generators(self) -> bool:
        return True

    def start(self) -> PlanService:
        mode = DEBUG if self.debug else DEFAULT
        return PlanService(lambda plan, position, epoch: InProcessRun(plan, position, epoch, mode))


class InProcessRun:
    """One run in this process."""

    def __init__(self, plan: Plan, position: Position, epoch: int, mode: Mode) -> None:
        self._plan = plan
        self._position = position
        self._epoch = epoch
        self._mode = mode if mode is DEBUG else mode._replace(times=consumer_clock().times)
        self._resources = ProcessResources()

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        try:
            yield from run_rank(self._plan, self._position, self._epoch, self._mode, self._resources)
        finally:
            self._resources.close()

    def close(self) -> None:
        self._resources.join()


@methods_explain_wrong_arguments
@dataclass(frozen=True)
class Threads:
    """Runs a pipe in threads of this process.

    For work that lets other threads run: reading, Arrow, most of NumPy, decoding. Elements are handed over as they are,
    without a copy, in the order of the plan, whatever the number of threads. Functions in Python take turns, so
    `MultiProcess` is for these. Your functions, and a dataset given to `from_dataset` or `from_sequence`, must allow
    calls from several threads. A function that never returns cannot be ended.

    Args:
        workers: the number of threads.
        prefetch: finished elements that each thread keeps ready. By default two; up to 64, but at most 32 MiB, if
            elements are produced in bursts, as by a windowed shuffle.
        memory: bytes that finished elements may hold, such as "4GiB"; each thread makes one in any case. By default a
            quarter of the memory of the machine or its control group, divided by `LOCAL_WORLD_SIZE`.
        timeout: seconds without any element after which the threads count as stuck. The error shows their stacks.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is out of its range or of the wrong type.

    Example:
        >>> import feedpipe as fp
        >>> with fp.Loader(fp.from_sequence(range(4)).map(lambda x: x * x), fp.Threads(2)) as loader:
        ...     list(loader)
        [0, 1, 4, 9]
    """

    workers: int
    _: KW_ONLY
    prefetch: int | None = None
    memory: int | str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_int("workers", self.workers, least=1)
        check_arguments(prefetch=self.prefetch, memory=self.memory, timeout=self.timeout)

    @property
    def global_generators(self) -> bool:
        return False

    def start(self) -> PlanService:
        return PlanService(lambda plan, position, epoch: ThreadsRun(self, plan, position, epoch))


Item: TypeAlias = PlanItem | BaseException


class ThreadsRun:
    """Runs a plan from `position` on; `Merge` puts the elements in order."""

    def __init__(self, service: Threads, plan: Plan, position: Position, epoch: int) -> None:
        self._threads: list[Thread] = []
        self._service = service
        self._plan = plan
        self._epoch = epoch
        self._merge = Merge(plan, position, service.workers)
        memory = element_memory(service.memory)
        self._lock = RLock()  # acquired and released in C: an interrupt may come between in `Condition.__exit__`
        self._changed = Condition(self._lock)
        self._inboxes = [
            _Inbox(service.prefetch, memory // service.workers, in_spans=self._merge.in_spans)
            for _ in range(service.workers)
        ]
        self._starts: dict[int, SpanStart] = {}  # where spans begin
        self._resources = ProcessResources()
        self._stopped = False
        self._process = os.getpid()
        self._clock, self._times = consumer_clock(), here.run

    def items(self) -> Generator[Step | ShardEnd]:
        """The elements, in the order of the plan."""
        try:
            self._start(range(self._service.workers))
            yield from self._merge.run(self._receive, self._start_tail)
        finally:
            self._resources.close()

    def close(self) -> None:
        self._resources.join()

    def _receive(self, worker: int) -> PlanItem:
        """The next item of a thread; waits for it."""
        inbox = self._inboxes[worker]
        with self._lock:
            self._wait(lambda: bool(inbox.items), worker_name(worker))
            item = inbox.take()
            self._changed.notify_all()
        if not isinstance(item, BaseException):
            return item
        try:
            raise item
        finally:
            del item  # this frame is in the traceback of the error, and would keep all of it until a collection

    def _start_tail(self) -> None:
        """Thread 0 runs the tail."""
        self._start(range(1))

    def _start(self, workers: range) -> None:
        # The consumer binds the parts: a plan is not for several threads at a time.
        assignments = [self._merge.assignment(worker) for worker in workers]
        if assignments[0].span is not None:
            for assignment in assignments:
                self._start_thread(assignment.worker, partial(self._items_of_spans, assignment))
            return
        parts = [assignment.parts(self._plan, self._merge.leftovers) for assignment in assignments]
        shards = tuple(part.shard for own in parts for part in own)
        for worker, own in zip(workers, parts, strict=True):
            if own:
                self._start_thread(worker, partial(self._items_of_shards, own, shards))

    def _start_thread(self, worker: int, run: Callable[[Mode], Generator[PlanItem | NextSpan, None, object]]) -> None:
        produce = partial(self._produce, worker, run)
        self._threads.append(self._resources.start(f"feedpipe-worker-{worker}", produce, self._stop))

    def _items_of_shards(
        self, parts: list[ShardRun], shards: tuple[int, ...], mode: Mode
    ) -> Generator[PlanItem, None, object]:
        return run_shards(self._plan, parts, self._epoch, mode, self._resources, shards)

    def _items_of_spans(self, assignment: Assignment, mode: Mode) -> Generator[PlanItem | NextSpan]:
        return run_spans(self._plan, assignment, self._epoch, mode, self._resources, self._wait_for_start)

    def _wait_for_start(self, span: int) -> SpanStart:
        """Where a span begins, which the thread of the span before it finds out."""
        with self._lock:
            self._changed.wait_for(lambda: self._stopped or span in self._starts)
            if self._stopped:
                raise RunEnded
            return self._starts.pop(span)

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._changed.notify_all()

    def _produce(self, worker: int, run: Callable[[Mode], Generator[PlanItem | NextSpan, None, object]]) -> None:
        clock = Clock(thread_of_worker(self._times, worker))
        items = run(DEFAULT._replace(times=clock.times))
        try:
            for item in items:
                if isinstance(item, NextSpan):
                    with self._lock:
                        self._starts[item.span] = item.start
                        self._changed.notify_all()
                    continue
                if not self._put(worker, item, clock):
                    return
                del item  # the consumer has it
        except RunEnded:
            self._put(worker, RunEnded(), clock)  # the frames of the other would keep this thread until a collection
        except BaseException as error:
            self._put(worker, error, clock)
        finally:
            items.close()
            clock.end()

    def _put(self, worker: int, item: Item, clock: Clock) -> bool:
        """Hand an item over as soon as there is room for it; return whether anybody wants another one."""
        inbox = self._inboxes[worker]
        size = nbytes([item.element]) if isinstance(item, Step) else 0
        with self._lock:
            if not (self._stopped or inbox.has_room()):
                with clock.waiting("consumer"):
                    self._changed.wait_for(lambda: self._stopped or inbox.has_room())
            inbox.put(item, size)
            self._changed.notify_all()
            return not self._stopped

    def _wait(self, ready: Callable[[], bool], name: str) -> None:
        if ready():
            return
        if os.getpid() != self._process:
            raise LoaderError(
                "the threads of `Threads` belong to the process that started them; begin a new iterator here"
            )
        with self._clock.waiting("worker", name):
            has_come = self._changed.wait_for(ready, self._service.timeout)
        if not has_come:
            raise self._timeout_error()

    def _timeout_error(self) -> WorkerError:
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        stacks = [
            f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
            for thread in self._threads
            if thread.ident in frames
        ]
        self._resources.abandon()  # one of them may never end
        return WorkerError(
            f"no element has come for {self._service.timeout:g} seconds, which is the `timeout`\n" + "\n".join(stacks)
        )


class _Inbox:
    """Items of one thread that the consumer has not taken yet, up to `prefetch` of them and `memory` bytes."""

    def __init__(self, prefetch: int | None, memory: int, *, in_spans: bool) -> None:
        self.items: deque[Item] = deque()
        self._limit = PrefetchLimit(prefetch, memory)
        self._limit.begin(in_spans=in_spans)

    def has_room(self) -> bool:
        """Whether an item may be added."""
        return not self.items or not self._limit.is_full()

    def put(self, item: Item, size: int) -> None:
        self.items.append(item)
        self._limit.add(size)

    def take(self) -> Item:
        self._limit.remove(1)
        return self.items.popleft()
