"""The workers of `DataLoader`, processes or actors: kept for all epochs, or new for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from ..core.cursor import Json
from ..core.graph import Node
from ..services.keyed_run import KeyedRun
from ..services.on_ray import Ray, actor_pool
from ..services.processes.fetch_run import FetchRun
from ..services.processes.pool import Pool, PoolSettings


class WorkerPool(Protocol):
    """The workers of an epoch."""

    def distrust(self) -> None: ...
    def close(self) -> None: ...


class WorkerPools:
    """Hands out the pool of an epoch, and begins runs on it.

    Args:
        make_pool: makes a pool.
        make_run: makes a run of a pool, with the arguments of `FetchRun`.
        keep: whether the workers live as long as the loader. Else each epoch starts new ones, which see the dataset as
            it is.
    """

    def __init__(self, make_pool: Callable[[], Any], make_run: Callable[..., KeyedRun[Any]], *, keep: bool) -> None:
        self._make_pool = make_pool
        self._make_run = make_run
        self.keep = keep
        self._kept: WorkerPool | None = None
        self._runs = 0

    def acquire(self) -> WorkerPool:
        pool: WorkerPool = self._kept or self._make_pool()
        if self.keep:
            self._kept = pool
        return pool

    def release(self, pool: WorkerPool) -> None:
        """Ends the workers of a pool, unless they are kept."""
        if pool is not self._kept:
            pool.close()

    def begin(
        self,
        pool: WorkerPool,
        root: Node,
        keys: Iterator[object],
        turns: Sequence[int],
        positions: Sequence[Json],
        **options: int,
    ) -> KeyedRun[Any]:
        """Begins a run; `FetchRun` explains the arguments."""
        self._runs += 1
        return self._make_run(pool, root, keys, turns, positions, number=self._runs, **options)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}  # workers belong to the process that started them


def processes(settings: PoolSettings, *, keep: bool, ordered: bool) -> WorkerPools:
    """Processes of this machine."""
    return WorkerPools(partial(Pool, settings), partial(FetchRun, ordered=ordered), keep=keep)


def actors(service: Ray, *, keep: bool) -> WorkerPools:
    """Actors of a cluster. They hand out elements in order, also if none is needed."""
    return WorkerPools(partial(actor_pool, service), _actor_run, keep=keep)


def _actor_run(*arguments: Any, **options: Any) -> KeyedRun[Any]:
    from ..services.actors.actor_fetch_run import ActorFetchRun

    return ActorFetchRun(*arguments, **options)
