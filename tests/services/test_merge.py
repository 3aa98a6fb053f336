"""A reading service can run shards in its own way and leave turns, states and leftovers to `Merge`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import feedpipe as fp
from feedpipe.extensions import Plan, Position, ShardEnd, Step

from ..support.core import ProcessResources
from ..support.plan import ShardRun
from ..support.services import DEFAULT, Merge, run_shards

Item = Step | ShardEnd
INBOX_ITEMS = 3


@dataclass(frozen=True)
class Threads:
    """Runs a plan in threads, which put their items into inboxes.

    Args:
        workers: the number of threads.
        ordered: whether elements come in the order of the plan.
        lifetime: items after which a thread ends before its work is done, as a process that is killed.
    """

    workers: int
    ordered: bool = True
    lifetime: int | None = None

    @property
    def global_generators(self) -> bool:
        return False

    def start(self) -> ThreadsExecutor:
        return ThreadsExecutor(self)


@dataclass(frozen=True)
class ThreadsExecutor:
    service: Threads

    def open(self, plan: Plan, position: Position, epoch: int) -> ThreadsSession:
        return ThreadsSession(ThreadsRun(self.service, plan, position, epoch), ordered=self.service.ordered)

    def close(self) -> None:
        pass


class ThreadsSession:
    def __init__(self, run: ThreadsRun, *, ordered: bool) -> None:
        self._items = run.items(ordered=ordered)

    def __iter__(self) -> Iterator[Item]:
        return self._items

    def close(self) -> None:
        self._items.close()


class ThreadsRun:
    """The workers of one run, as `Merge` uses them."""

    def __init__(self, service: Threads, plan: Plan, position: Position, epoch: int) -> None:
        self._service = service
        self._plan = plan
        self._epoch = epoch
        self._merge = Merge(plan, position, service.workers)
        self._inboxes: list[deque[Item | BaseException | None]] = [deque() for _ in range(service.workers)]
        self._changed = threading.Condition()
        self._stopped = False
        self._threads: list[threading.Thread] = []

    def items(self, *, ordered: bool) -> Iterator[Item]:
        try:
            for worker in range(self._service.workers):
                self._start(worker)
            yield from self._merge.run(self, ordered=ordered)
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            for thread in self._threads:
                thread.join()

    def receive(self, worker: int) -> Item:
        inbox = self._inboxes[worker]
        while True:
            with self._changed:
                self._changed.wait_for(lambda: inbox)
                item = inbox.popleft()
                self._changed.notify_all()
            if isinstance(item, BaseException):
                raise item
            if item is not None:
                return item
            self._start(worker)  # the thread has ended too early

    def wait_for_any(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: any(self._inboxes))
        return next(worker for worker, inbox in enumerate(self._inboxes) if inbox)

    def start_tail(self) -> None:
        self._start(0)

    def _start(self, worker: int) -> None:
        # The consumer binds the parts: a plan is not for several threads at a time.
        parts = self._merge.assignment(worker).parts(self._plan, self._merge.leftovers)
        self._threads.append(threading.Thread(target=self._produce, args=[worker, parts]))
        self._threads[-1].start()

    def _produce(self, worker: int, parts: list[ShardRun]) -> None:
        resources = ProcessResources()
        items = run_shards(self._plan, parts, self._epoch, DEFAULT, resources)
        try:
            for count, item in enumerate(items):
                if count == self._service.lifetime:
                    self._put(worker, None)
                    return
                if not self._put(worker, item):
                    return
        except Exception as error:
            self._put(worker, error)
        finally:
            items.close()
            resources.close()
            resources.join()

    def _put(self, worker: int, item: Item | BaseException | None) -> bool:
        inbox = self._inboxes[worker]
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(inbox) < INBOX_ITEMS)
            inbox.append(item)
            self._changed.notify_all()
            return not self._stopped


@pytest.mark.parametrize("lifetime", [None, 1, 4])
@pytest.mark.parametrize(
    "pipe",
    [
        fp.from_sequence(range(50)).shuffle().batch(4),
        fp.from_sequence(range(50)).filter(lambda row: row % 7).shuffle(window=8).batch(4),
    ],
    ids=["indexed", "streamed"],
)
def test_the_order_is_that_of_the_plan_even_if_workers_start_again(pipe, lifetime):
    expected = list(fp.Loader(pipe, seed=1))
    for workers in (1, 3):
        with fp.Loader(pipe, Threads(workers, lifetime=lifetime), seed=1) as loader:
            assert list(loader) == expected
