"""`DataLoader`: a replacement for torch's, with feedpipe's workers, exact resume and restart of workers."""

from __future__ import annotations

import base64
import random
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, repeat
from multiprocessing.context import BaseContext
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset, IterDataPipe, MapDataPipe, Sampler

from ..core.cursor import Json
from ..core.ending import Ending
from ..core.graph import Node
from ..core.process import memory_budget
from ..engine.run import interrupted
from ..errors import ArgumentError, ArgumentTypeError, LoaderError, StateError, WorkerError, call_site
from ..loading.state import State
from ..pipe import Pipe
from ..services.fetching import FetchEnd, FetchRequest
from ..services.multiprocess import MultiProcess
from ..services.on_ray import Ray, pool_settings
from ..services.processes.pool import Pool, PoolSettings
from ..services.processes.runs import FetchRun
from ..services.processes.start import ForkServer, begin_server
from .fetchers import DatasetSource, has_state, next_epoch

T_co = TypeVar("T_co", covariant=True)
_THREADS = MultiProcess.threads, MultiProcess.io_threads

VERSION = 1


class DataLoader(TorchDataLoader[T_co]):
    """Loads batches of a torch dataset, as `torch.utils.data.DataLoader` does: change the import, and nothing else.

    Batches, their order and what is drawn from the generators are torch's. Workers are feedpipe's: batches come through
    shared memory without a file descriptor for each tensor, a script needs no `if __name__ == "__main__"`, and a worker
    that dies is started again with no batch lost. `state_dict()` and `load_state_dict()` resume exactly, in the middle
    of an epoch. What differs on purpose, and what is not supported, is in `docs/guides/dataloader.md`.

    Args:
        dataset: a map-style or an iterable dataset.
        batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn, multiprocessing_context, generator, prefetch_factor, persistent_workers, in_order: as for
            torch's.
        distribute: "ray" has `num_workers` actors of a Ray cluster make the batches, instead of processes; an `fp.Ray`
            says more about these actors, and has their number.

    Raises:
        ValueError, TypeError: as torch's, in its words.
        ArgumentTypeError: the dataset is a DataPipe.

    Example:
        >>> import torch
        >>> from feedpipe.compat import DataLoader
        >>> loader = DataLoader(torch.arange(6), batch_size=2, shuffle=True)
        >>> batches = iter(loader)
        >>> first = next(batches)
        >>> state = loader.state_dict()
        >>> resumed = DataLoader(torch.arange(6), batch_size=2, shuffle=True)
        >>> resumed.load_state_dict(state)
        >>> torch.cat([first, *resumed]).sort().values
        tensor([0, 1, 2, 3, 4, 5])
    """

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        distribute: Literal["ray"] | Ray | None = None,
    ) -> None:
        if isinstance(dataset, (IterDataPipe, MapDataPipe)):
            raise ArgumentTypeError(
                f"`dataset` must not be a DataPipe but got: {type(dataset).__name__}; write the chain as a pipe of "
                "feedpipe, or use torch's DataLoader"
            )
        self._ray, num_workers = _ray_service(distribute, num_workers, timeout)
        self.distribute = distribute  # trainers make a loader again from the attributes named as its arguments
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,  # type: ignore[arg-type]
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
        )
        if timeout and not num_workers:
            raise ArgumentError("`timeout` must be 0 without workers, because nobody waits for any")
        if prefetch_factor == 0:
            raise ArgumentError("`prefetch_factor` must be >= 1 but got: 0")
        self.in_order = in_order  # torch before 2.6 has no such argument
        self._parts: SharedParts | None = None  # of workers that are kept
        self._epoch: DataLoaderEpoch | None = None  # the one that began last
        self._saved: Mapping[str, Any] | None = None
        if num_workers and self._ray is None:
            begin_server(*_THREADS, [dataset, self.collate_fn, worker_init_fn])

    def __iter__(self) -> DataLoaderIterator[T_co]:  # type: ignore[override]
        saved, self._saved = self._saved, None
        parts = self._parts
        if parts is not None and self._epoch is not None:
            self._epoch.end(LoaderError("a newer `iter(loader)` has ended this one, because it uses the same workers"))
        if parts is None:
            parts = self._new_parts()
            self._parts = parts if self.persistent_workers else None
        self._epoch = DataLoaderEpoch(parts, saved)
        return DataLoaderIterator(self._epoch)

    def state_dict(self) -> State:
        """Return the position of the consumer: after the last batch that it took, in the iteration that began last.

        It is plain JSON if the states of the dataset and of the sampler are, should they have any.

        Raises:
            LoaderError: `in_order=False` gives batches in no order.
        """
        self._check_order()
        if self._saved is not None:
            return dict(self._saved)
        if self._epoch is None or self._epoch.finished:
            positions = None if self._epoch is None else self._epoch.next_positions()
            seed = None if self._parts is None else self._parts.seed  # workers that are kept go on from it
            entries: State = {
                "step": 0,
                **self._sampling().states(),
                "epoch": None,
                "positions": positions,
                "seed": seed,
            }
        else:
            entries = self._epoch.entries()
        if not self.num_workers:
            entries["now"] = cast("Json", process_states())  # the dataset draws from these generators
        return {"feedpipe_dataloader": VERSION, "loader": self._signature(), **entries}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter(loader)` continue after the batch after which `state` was taken.

        The samplers draw again what they drew for the batches before, from the same states of all generators; no row of
        a map-style dataset is read again. An iterable dataset continues by its own state, if it has one; else the
        workers iterate again over the rows before. A state after the last batch means the next epoch.

        Raises:
            StateError: it is no such state, or that of a loader with other arguments.
        """
        self._check_order()
        signature = self._signature()
        saved = state.get("loader")
        if state.get("feedpipe_dataloader") != VERSION or not isinstance(saved, Mapping):
            raise StateError("`state` is no state of this version of `feedpipe.compat.DataLoader`", at=call_site())
        for name, value in signature.items():
            if saved.get(name) != value:
                raise StateError(
                    f"the state was taken with {name} {saved.get(name)!r}, and this loader has {value!r}; make "
                    "the loader as it was",
                    at=call_site(),
                )
        if self._epoch is not None:
            self._epoch.end(LoaderError("a state was loaded"))
        self._saved = dict(state)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_parts": None, "_epoch": None}

    def _check_order(self) -> None:
        if not self.in_order:
            raise LoaderError(
                "`in_order=False` gives batches as they come, so a state cannot name those that were taken; leave it "
                "out to save states"
            )

    def _sampling(self) -> Sampling:
        return Sampling(self.generator, (self.sampler, self.batch_sampler))

    def _signature(self) -> dict[str, Json]:
        """The facts that a state and its loader share."""
        iterable = isinstance(self.dataset, IterableDataset)
        states = self._sampling().states()
        return {
            "dataset": type(self.dataset).__qualname__,
            "rows": None if iterable or not isinstance(self.dataset, Sized) else len(self.dataset),
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "sampler": type(self.sampler).__qualname__,
            "batch_sampler": type(self.batch_sampler).__qualname__,
            "generators": len(cast("list[Json]", states["generators"])),
            "num_workers": self.num_workers if iterable else None,
        }

    def _new_parts(self) -> SharedParts:
        iterable = isinstance(self.dataset, IterableDataset)
        source = DatasetSource(
            dataset=self.dataset,
            iterable=iterable,
            batch_size=self.batch_size,
            batched=self.batch_sampler is not None,
            drop_last=self.drop_last,
            collate=self.collate_fn,
            worker_init=self.worker_init_fn,
        )
        return SharedParts(
            source=source,
            node=Pipe.source(source),
            keys=repeat(None) if iterable else self.sampler if self.batch_sampler is None else self.batch_sampler,
            sampling=self._sampling(),
            generator=self.generator,
            workers=self.num_workers,
            prefetch=self.prefetch_factor or 2,
            settings=self._settings(),
            keeps_workers=self.persistent_workers,
            ordered=self.in_order or self._ray is not None,
            pin=_pin(self.pin_memory),
        )

    def _settings(self) -> PoolSettings:
        if self._ray is not None:
            return pool_settings(self._ray)
        return PoolSettings(
            workers=self.num_workers,
            memory=memory_budget(),
            launcher=partial(ForkServer, *_THREADS),
            prefetch=self.prefetch_factor or 2,
            timeout=self.timeout or None,
        )


def _ray_service(distribute: object, workers: int, timeout: float) -> tuple[Ray | None, int]:
    """The service of `distribute`, if any, and the number of workers."""
    if distribute is None:
        return None, workers
    if isinstance(distribute, Ray):
        if workers not in (0, distribute.actors):
            raise ArgumentError(f"`num_workers` must be left out, or be the number of actors, but got: {workers!r}")
        return distribute, distribute.actors
    if distribute != "ray":
        raise ArgumentError(f'`distribute` must be "ray", an `fp.Ray` or None but got: {distribute!r}')
    if not workers:
        raise ArgumentError("`num_workers` must be >= 1 with `distribute`, because it is the number of actors")
    return Ray(workers, timeout=timeout or None), workers


def _pin(pin: bool) -> Callable[[object], object] | None:
    if not pin:
        return None
    if torch.cuda.is_available():
        from ..torch.device import pinned

        return pinned
    warnings.warn("`pin_memory` is True, but there is no GPU, so nothing is pinned", UserWarning, stacklevel=4)
    return None


# Epochs: the keys of samplers, and the elements that are made of them


@dataclass
class SharedParts:
    """The parts of a loader that its epochs share.

    Attributes:
        source: makes an element of a key; `node` is a graph of it, for workers.
        keys: the sampler or batch sampler; of an iterable dataset, any keys without end.
        sampling: what gives the keys.
        generator: the `generator` of the loader.
        workers, prefetch: as the loader has them.
        settings: of the workers, processes or actors.
        keeps_workers: whether they live as long as the loader. Else each epoch starts new ones, which see the dataset
            as it is then.
        ordered: whether elements come in the order of their keys.
        pin: pins an element, if elements are pinned.
        seed: of the last epoch.
        positions: where the workers that are kept begin the next epoch, if the last one has ended.
        kept: the workers that are kept.
        runs: the epochs that workers have begun.
    """

    source: DatasetSource
    node: Node
    keys: Iterable[object]
    sampling: Sampling
    generator: torch.Generator | None
    workers: int
    prefetch: int
    settings: PoolSettings
    keeps_workers: bool
    ordered: bool
    pin: Callable[[object], object] | None
    seed: int | None = None
    positions: list[Json] | None = None
    kept: Pool | None = None
    runs: int = 0

    @property
    def keeps_dataset(self) -> bool:
        """Whether all epochs iterate the same copies of an iterable dataset, which may have a state."""
        return self.source.iterable and (self.keeps_workers or not self.workers)

    def acquire(self) -> Pool:
        """The workers of an epoch."""
        pool = self.kept or Pool(self.settings)
        self.kept = pool if self.keeps_workers else None
        return pool

    def release(self, pool: Pool) -> None:
        """Ends the workers of an epoch, unless they are kept."""
        if not self.keeps_workers:
            pool.close()

    def draw_seed(self) -> int:
        """Draws a seed as torch does."""
        return int(torch.empty((), dtype=torch.int64).random_(generator=self.generator).item())


class DataLoaderIterator(Generic[T_co]):
    """The iterator of an epoch. If it is dropped, the epoch ends, and with it the workers of the epoch."""

    def __init__(self, epoch: DataLoaderEpoch) -> None:
        self._epoch = epoch
        Ending(self, partial(epoch.end, LoaderError("the iterator of this epoch was dropped")))

    def __iter__(self) -> DataLoaderIterator[T_co]:
        return self

    def __len__(self) -> int:
        """Return the number of elements of an epoch, as torch's does; that of an iterable dataset has none."""
        return len(self._epoch.keys)

    def __next__(self) -> T_co:
        return cast("T_co", self._epoch.next())


class DataLoaderEpoch:
    """One iteration over a `DataLoader`.

    After an error of the dataset's code, it continues with the next element, as torch's does.

    Args:
        parts: of the loader.
        saved: the state to begin at.
    """

    def __init__(self, parts: SharedParts, saved: Mapping[str, Any] | None) -> None:
        self._parts = parts
        self._step = 0  # elements that were taken
        self._stop: Exception | None = None
        self._pool: Pool | None = None
        self._resumed = saved is not None  # and has given no element since
        if saved is not None:
            parts.sampling.restore(saved)
            if "now" in saved:
                _set_process_states(saved["now"])
        if saved is None or saved["epoch"] is None:
            positions, parts.positions = parts.positions, None
            if saved is not None:
                parts.seed = saved.get("seed")
            self._begin(positions if saved is None else saved.get("positions"))
        else:
            self._resume(saved["step"], saved["epoch"])

    @property
    def keys(self) -> Sized:
        """The sampler or batch sampler."""
        return cast("Sized", self._parts.keys)

    @property
    def finished(self) -> bool:
        """Whether all elements were taken, and the consumer has seen the end."""
        return isinstance(self._stop, StopIteration)

    def next_positions(self) -> list[Json] | None:
        """The positions at the beginning of the next epoch, if that iterates the same copies of the dataset."""
        return list(map(next_epoch, self._run.positions)) if self._parts.keeps_dataset else None

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
            self._parts.positions = self.next_positions()
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
        pin = self._parts.pin
        return element if pin is None else pin(element)

    def entries(self) -> dict[str, Json]:
        """The entries of a state after the element that was taken last."""
        epoch: dict[str, Json] = {"seed": self._seed, "draws_seed": self._draws_seed, "process": self._process}
        if self._parts.source.iterable:
            epoch |= {"positions": self._run.positions, "turns": cast("Json", self._run.turns)}
        return {"step": self._step, **self._samplers, "epoch": epoch}

    def end(self, stop: Exception) -> None:
        """Ends the epoch, so that each later `next` raises `stop`."""
        if self._stop is not None:
            return
        self._stop = stop
        self._run.close()
        if self._pool is not None:
            self._parts.release(self._pool)

    def _next(self) -> object:
        try:
            return next(self._run)
        except StopIteration:
            if not self._resumed:
                raise
        # A state after the last element means the next epoch.
        self._resumed = False
        self._run.close()
        self._begin(self.next_positions())
        return next(self._run)

    def _begin(self, positions: list[Json] | None) -> None:
        """Begins at the first element, and draws from the generators in the order in which torch does."""
        parts = self._parts
        self._step = 0
        self._samplers: dict[str, Json] = parts.sampling.states()
        self._process: dict[str, Json] = process_states()
        keys = iter(parts.keys)
        # Workers that are kept have their seed; each further epoch of theirs has the next number.
        self._draws_seed = parts.seed is None or not parts.keeps_workers
        self._seed: int = parts.draw_seed() if self._draws_seed else cast("int", parts.seed) + 1
        self._run = self._start(keys, positions, None)

    def _resume(self, step: int, epoch: Mapping[str, Any]) -> None:
        """Begins after `step` elements, for which the samplers draw again."""
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
            if step or parts.workers:  # else no key was drawn yet
                keys = chain([*islice(keys, 1)], keys)  # many samplers draw all with the first key
        turns = epoch.get("turns")
        if turns is not None and parts.keeps_dataset:  # workers that have ended get the state of their dataset, too
            turns = [*turns, *(worker for worker in range(parts.workers) if worker not in turns)]
        self._run = self._start(keys, epoch.get("positions"), turns)

    def _start(
        self, keys: Iterator[object], positions: list[Json] | None, turns: list[int] | None
    ) -> LocalRun | FetchRun:
        parts = self._parts
        parts.seed = self._seed
        if not parts.workers:
            return LocalRun(parts.source, keys, positions[0] if positions else None)
        if self._pool is None:
            self._pool = parts.acquire()
        parts.runs += 1
        return FetchRun(
            self._pool,
            parts.node,
            keys,
            range(parts.workers) if turns is None else turns,
            positions or [None] * parts.workers,
            number=parts.runs,
            first=self._step,
            seed=self._seed,
            ahead=parts.prefetch,
            ordered=parts.ordered,
        )


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


# States of generators and samplers


class Sampling:
    """The samplers of a loader, and the generators that it and they were given.

    Args:
        loader_generator: the `generator` of the loader.
        samplers: its sampler and its batch sampler.
    """

    def __init__(self, loader_generator: torch.Generator | None, samplers: Iterable[object]) -> None:
        nested = [each for sampler in samplers for each in (sampler, getattr(sampler, "sampler", None))]
        self._samplers: list[Any] = _unique(each for each in nested if each is not None)
        owned = [loader_generator, *(getattr(sampler, "generator", None) for sampler in self._samplers)]
        self._generators: list[torch.Generator] = _unique(each for each in owned if isinstance(each, torch.Generator))

    def states(self) -> dict[str, Json]:
        """The states of all generators and samplers."""
        return {
            "generators": [_encoded(generator.get_state()) for generator in self._generators],
            "samplers": [_sampler_state(sampler) for sampler in self._samplers],
        }

    def restore(self, states: Mapping[str, Any]) -> None:
        """Sets all generators and samplers to these states."""
        for generator, state in zip(self._generators, states["generators"], strict=True):
            generator.set_state(_tensor(state))
        for sampler, state in zip(self._samplers, states["samplers"], strict=True):
            if state is None:
                continue
            if "state" in state:
                sampler.load_state_dict(state["state"])
            else:
                sampler.set_epoch(state["epoch"])


def _sampler_state(sampler: Any) -> Json:
    """The sampler's own state; or its epoch, as that of `DistributedSampler`; or None."""
    if has_state(sampler):
        return {"state": sampler.state_dict()}
    epoch = getattr(sampler, "epoch", None)
    return {"epoch": epoch} if isinstance(epoch, int) and hasattr(sampler, "set_epoch") else None


def process_states() -> dict[str, Json]:
    """The states of the generators that the whole process shares."""
    version, words, gauss = random.getstate()
    kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state(legacy=True))
    return {
        "python": [version, _encoded(np.array(words, np.uint32)), gauss],
        "numpy": [kind, _encoded(keys), *rest],
        "torch": _encoded(torch.get_rng_state()),
    }


@contextmanager
def at_process_states(states: Mapping[str, Any]) -> Generator[None]:
    """Sets the generators of the process to `states` for a while."""
    now = process_states()
    _set_process_states(states)
    try:
        yield
    finally:
        _set_process_states(now)


def _set_process_states(states: Mapping[str, Any]) -> None:
    version, words, gauss = states["python"]
    random.setstate((version, tuple(_array(words, np.uint32).tolist()), gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, _array(keys, np.uint32), *rest))
    torch.set_rng_state(_tensor(states["torch"]))


def _unique(values: Iterable[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())


def _encoded(values: npt.NDArray[Any] | torch.Tensor) -> str:
    return base64.b64encode(np.asarray(values).tobytes()).decode()


def _array(text: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), dtype).copy()


def _tensor(text: str) -> torch.Tensor:
    return torch.from_numpy(_array(text, np.uint8))
