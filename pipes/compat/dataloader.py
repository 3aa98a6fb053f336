"""`DataLoader`: stands in for torch's, with feedpipe's workers, exact resume and restart of workers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import Any, Literal, TypeVar, cast

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset, IterDataPipe, MapDataPipe, Sampler

from ..core.cursor import Json
from ..core.memory import memory_budget
from ..errors import ArgumentError, ArgumentTypeError, LoaderError, StateError, with_call_site
from ..loading.state import State
from ..pipe import Pipe
from ..services.on_ray import Ray
from ..services.processes.pool import PoolSettings
from .epoch import DataLoaderEpoch, DataLoaderIterator, Parts
from .fetchers import DatasetSource, InheritedSource
from .sampling import Sampling
from .workers import WorkerPools, actors, processes

T_co = TypeVar("T_co", covariant=True)

VERSION = 1


class DataLoader(TorchDataLoader[T_co]):
    """Loads batches of a torch dataset, as `torch.utils.data.DataLoader` does: change the import, and nothing else.

    Batches, their order and what is drawn from the generators are torch's. Workers are feedpipe's: batches come through
    shared memory without a file descriptor for each tensor, a script needs no `if __name__ == "__main__"`, and a worker
    that dies is started again with no batch lost. `state_dict()` and `load_state_dict()` resume exactly, in the middle
    of an epoch. What differs on purpose, and what is not supported, is in `docs/dataloader.md`.

    Args:
        dataset: a map-style or an iterable dataset.
        batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn, multiprocessing_context, generator, prefetch_factor, persistent_workers, in_order: as for
            torch's.
        distribute: "ray" has `num_workers` actors of a Ray cluster make the batches, in place of processes; `fp.Ray`
            says more about these actors, and brings their number.

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
                with_call_site(
                    f"`dataset` must not be a DataPipe but got: {type(dataset).__name__}; write the chain as a pipe of "
                    "feedpipe, or use torch's DataLoader"
                )
            )
        self._ray, num_workers = _ray_service(distribute, num_workers, timeout)
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
            raise ArgumentError(with_call_site("`timeout` must be 0 without workers, because nobody waits for any"))
        if prefetch_factor == 0:
            raise ArgumentError(with_call_site("`prefetch_factor` must be >= 1 but got: 0"))
        self.in_order = in_order  # torch before 2.6 has no such argument
        self._announced_length: int | None = None
        self._parts: Parts | None = None  # of workers that are kept
        self._epoch: DataLoaderEpoch | None = None  # the one that began last
        self._saved: Mapping[str, Any] | None = None

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

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            self._announced_length = len(self.dataset)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return super().__len__()

    def state_dict(self) -> State:
        """Return where the consumer stands: after the last batch that it took, in the iteration that began last.

        Plain JSON, as far as the states of the dataset and of the sampler are, if they have any.

        Raises:
            LoaderError: `in_order=False` hands out batches in no order.
        """
        self._check_order()
        if self._saved is not None:
            return dict(self._saved)
        if self._epoch is None or self._epoch.finished:
            entries: State = {"step": 0, **self._sampling().states(), "epoch": None}
        else:
            entries = self._epoch.entries()
        return {"feedpipe_dataloader": VERSION, "loader": self._signature(), **entries}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter(loader)` go on behind the batch after which `state` was taken.

        The samplers draw again what they drew for the batches before, from the same states of all generators; no row of
        a map-style dataset is read again. Of an iterable dataset, the workers go on by its `state_dict`, if it has one,
        and else iterate the rows before again. A state after the last batch means the next epoch.

        Raises:
            StateError: it is no such state, or that of a loader with other arguments.
        """
        self._check_order()
        signature = self._signature()
        saved = state.get("loader")
        if state.get("feedpipe_dataloader") != VERSION or not isinstance(saved, Mapping):
            raise StateError(with_call_site("`state` is no state of this version of `feedpipe.compat.DataLoader`"))
        for name, value in signature.items():
            if saved.get(name) != value:
                raise StateError(
                    with_call_site(
                        f"the state was taken with {name} {saved.get(name)!r}, and this loader has {value!r}; make "
                        "the loader as it was"
                    )
                )
        if self._epoch is not None:
            self._epoch.end(LoaderError("a state was loaded"))
        self._saved = dict(state)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_parts": None, "_epoch": None}

    def _check_order(self) -> None:
        if not self.in_order:
            raise LoaderError(
                "`in_order=False` hands out batches as they come, so a state cannot name those that were taken; leave "
                "it out to save states"
            )

    def _sampling(self) -> Sampling:
        return Sampling(self.generator, (self.sampler, self.batch_sampler))

    def _signature(self) -> dict[str, Json]:
        """What must be the same for a state to fit."""
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

    def _new_parts(self) -> Parts:
        iterable = isinstance(self.dataset, IterableDataset)
        inherits = self._ray is None and self._start_method == "fork"
        source = (InheritedSource if inherits else DatasetSource)(
            dataset=self.dataset,
            iterable=iterable,
            batch_size=self.batch_size,
            batched=self.batch_sampler is not None,
            drop_last=self.drop_last,
            collate=self.collate_fn,
            worker_init=self.worker_init_fn,
        )
        prefetch = self.prefetch_factor or 2
        return Parts(
            source=source,
            node=Pipe.source(source),
            keys=repeat(None) if iterable else self.sampler if self.batch_sampler is None else self.batch_sampler,
            sampling=self._sampling(),
            generator=self.generator,
            workers=self.num_workers,
            prefetch=prefetch,
            pools=self._workers(prefetch),
            pin=_pin(self.pin_memory),
            announced_length=self._announced_length,
        )

    @property
    def _start_method(self) -> str:
        context = self.multiprocessing_context
        return "forkserver" if context is None else context.get_start_method()

    def _workers(self, prefetch: int) -> WorkerPools:
        if self._ray is not None:
            return actors(self._ray, keep=self.persistent_workers)
        settings = PoolSettings(
            workers=self.num_workers,
            memory=memory_budget(),
            start_method=self._start_method,
            prefetch=prefetch,
            timeout=self.timeout or None,
        )
        return processes(settings, keep=self.persistent_workers, ordered=self.in_order)


def _ray_service(distribute: object, workers: int, timeout: float) -> tuple[Ray | None, int]:
    """The service that `distribute` stands for, if any, and the number of workers."""
    if distribute is None:
        return None, workers
    if isinstance(distribute, Ray):
        if workers not in (0, distribute.actors):
            raise ArgumentError(
                with_call_site(f"`num_workers` must be left out, or be the number of actors, but got: {workers!r}")
            )
        return distribute, distribute.actors
    if distribute != "ray":
        raise ArgumentError(with_call_site(f'`distribute` must be "ray", an `fp.Ray` or None but got: {distribute!r}'))
    if not workers:
        raise ArgumentError(with_call_site("`num_workers` must be >= 1 with `distribute`, which has so many actors"))
    return Ray(workers, timeout=timeout or None), workers


def _pin(wanted: bool) -> Callable[[object], object] | None:
    if not wanted:
        return None
    if torch.cuda.is_available():
        from ..torch.device import pinned

        return pinned
    warnings.warn("`pin_memory` is True, but there is no GPU, so nothing is pinned", UserWarning, stacklevel=4)
    return None
