"""One epoch of `DataLoader`: the keys of its samplers, and the elements that are made of them."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar, cast

import torch

from ..core.cursor import Json
from ..core.graph import Node
from ..engine.run import interrupted
from ..errors import LoaderError, WorkerError
from ..services.fetching import FetchEnd, FetchRequest
from ..services.keyed_run import KeyedRun
from .fetchers import DatasetSource
from .sampling import Sampling, at_process_states, process_states
from .workers import WorkerPool, WorkerPools

T_co = TypeVar("T_co", covariant=True)


class LocalRun:
    """Makes the elements in this process, each when it is asked for."""

    def __init__(self, source: DatasetSource, keys: Iterator[object], position: Json) -> None:
        self._keys = keys
        self._fetcher = source.local_fetcher()
        self._fetcher.begin(FetchRequest(run=0, worker=0, workers=1, seed=0, position=position, waiting=0))

    @property
    def positions(self) -> list[Json]:
        return [self._fetcher.position()]

    @property
    def turns(self) -> list[int]:
        return [0]

    def __next__(self) -> object:
        key = next(self._keys)
        try:
            return self._fetcher.fetch(0, key)
        except FetchEnd:
            raise StopIteration from None

    def close(self) -> None:
        pass


@dataclass
class Parts:
    """What the epochs of a loader have in common.

    Attributes:
        source: makes an element of a key; `node` is a graph of it, for workers.
        keys: the sampler or batch sampler; of an iterable dataset, any keys without end.
        sampling: what gives the keys.
        generator: the `generator` of the loader.
        workers, prefetch: as the loader has them.
        pools: the workers, if there are any.
        pin: called with each element, if it is to be pinned.
        seed: of the last epoch.
        announced_length: the length of the iterable dataset, if the loader was asked for its own.
    """

    source: DatasetSource
    node: Node
    keys: Iterable[object]
    sampling: Sampling
    generator: torch.Generator | None
    workers: int
    prefetch: int
    pools: WorkerPools
    pin: Callable[[object], object] | None
    seed: int | None = None
    announced_length: int | None = None

    def draw_seed(self) -> int:
        """Draws a seed as torch does."""
        return int(torch.empty((), dtype=torch.int64).random_(generator=self.generator).item())


class DataLoaderIterator(Generic[T_co]):
    """What `iter(loader)` returns. If it is dropped, its epoch ends, and with it the workers of the epoch."""

    def __init__(self, epoch: DataLoaderEpoch) -> None:
        self._epoch = epoch
        weakref.finalize(self, epoch.end, LoaderError("the iterator of this epoch was dropped"))

    def __iter__(self) -> DataLoaderIterator[T_co]:
        return self

    def __next__(self) -> T_co:
        return cast("T_co", self._epoch.next())


class DataLoaderEpoch:
    """One iteration over a `DataLoader`.

    After an error of the dataset's code, it goes on with the next element, as torch's does.

    Args:
        parts: of the loader.
        saved: the state to begin at.
    """

    def __init__(self, parts: Parts, saved: Mapping[str, Any] | None) -> None:
        self._parts = parts
        self._step = 0  # elements that were taken
        self._stop: Exception | None = None
        self._pool: WorkerPool | None = None
        self._resumed = saved is not None  # and has given nothing since
        if saved is not None:
            parts.sampling.restore(saved)
        if saved is None or saved["epoch"] is None:
            self._begin()
        else:
            self._resume(saved["step"], saved["epoch"])

    @property
    def finished(self) -> bool:
        """Whether all elements were taken, and the consumer has seen the end."""
        return isinstance(self._stop, StopIteration)

    def next(self) -> object:
        """The next element.

        Raises:
            StopIteration: there is none.
        """
        if self._stop is not None:
            raise self._stop
        try:
            element = self._next()
        except StopIteration:
            self.end(StopIteration())
            raise
        except WorkerError as error:
            self.end(error)
            raise
        except Exception:
            self._step += 1
            raise
        except BaseException as error:
            if self._pool is not None:
                self._pool.distrust()
            self.end(interrupted(error))
            raise
        self._step += 1
        self._resumed = False
        length = self._parts.announced_length
        if length is not None and self._step > length:
            _warn_of_length(self._step, length)
        pin = self._parts.pin
        return element if pin is None else pin(element)

    def entries(self) -> dict[str, Json]:
        """The entries of a state after the element that was taken last."""
        epoch: dict[str, Json] = {"seed": self._seed, "draws_seed": self._draws_seed, "process": self._process}
        if self._parts.source.iterable:
            epoch |= {"positions": self._run.positions, "turns": cast("Json", self._run.turns)}
        return {"step": self._step, **self._samplers, "epoch": epoch}

    def end(self, stop: Exception) -> None:
        """Ends it, so that each later `next` raises `stop`."""
        if self._stop is not None:
            return
        self._stop = stop
        self._run.close()
        if self._pool is not None:
            self._parts.pools.release(self._pool)

    def _next(self) -> object:
        try:
            return next(self._run)
        except StopIteration:
            if not self._resumed:
                raise
        # A state after the last element means the next epoch.
        self._resumed = False
        self._run.close()
        self._begin()
        return next(self._run)

    def _begin(self) -> None:
        """Begins at the first element, and draws from the generators in the order in which torch does."""
        parts = self._parts
        self._step = 0
        self._samplers: dict[str, Json] = parts.sampling.states()
        self._process: dict[str, Json] = process_states()
        keys = iter(parts.keys)
        # Workers that are kept have their seed; each further epoch of theirs has the next number.
        self._draws_seed = parts.seed is None or not parts.pools.keep
        self._seed: int = parts.draw_seed() if self._draws_seed else cast("int", parts.seed) + 1
        self._run = self._start(keys, None, None)

    def _resume(self, step: int, epoch: Mapping[str, Any]) -> None:
        """Begins behind `step` elements. The samplers draw again what they drew for these."""
        parts = self._parts
        self._step = step
        self._samplers = parts.sampling.states()
        self._process = epoch["process"]
        self._draws_seed, self._seed = epoch["draws_seed"], epoch["seed"]
        with at_process_states(self._process):
            keys = iter(parts.keys)
            if self._draws_seed:
                parts.draw_seed()
            keys = islice(keys, 0 if parts.source.iterable else step, None)
            keys = chain([*islice(keys, 1)], keys)  # many samplers draw all with the first key
        self._run = self._start(keys, epoch.get("positions"), epoch.get("turns"))

    def _start(
        self, keys: Iterator[object], positions: list[Json] | None, turns: list[int] | None
    ) -> LocalRun | KeyedRun[Any]:
        parts = self._parts
        parts.seed = self._seed
        if not parts.workers:
            return LocalRun(parts.source, keys, positions[0] if positions else None)
        if self._pool is None:
            self._pool = parts.pools.acquire()
        return parts.pools.begin(
            self._pool,
            parts.node,
            keys,
            range(parts.workers) if turns is None else turns,
            positions or [None] * parts.workers,
            first=self._step,
            seed=self._seed,
            ahead=parts.prefetch,
        )


def _warn_of_length(step: int, length: int) -> None:
    warnings.warn(
        f"the iterable dataset says that it has {length} items, and the loader has given {step} elements; each worker "
        "iterates the whole dataset unless its `__iter__` looks at `get_worker_info()`",
        UserWarning,
        stacklevel=3,
    )
