"""Fetchers: they make the batches of a dataset, from indices or in the order of an iterable one."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from itertools import repeat
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Subset, TensorDataset, default_collate
from torch.utils.data._utils import worker

from ..core.cursor import Json
from ..ops.collate import tensor_data, tensors
from ..services.fetching import FetchEnd, Fetcher, FetchRequest, FetchSource

_torch_worker: Any = worker  # which torch has no public way to fill in
CollateFunction = Callable[[Any], object]


@dataclass(frozen=True, eq=False, repr=False)
class DatasetSource(FetchSource):
    """The source of the batches of a dataset.

    Attributes:
        dataset: a map-style or an iterable dataset.
        iterable: whether it is iterable.
        batch_size: rows of a batch of an iterable dataset; None if its rows are not batched.
        batched: whether a key is a list of indices; `collate` then gets the list of their rows.
        drop_last: whether an incomplete last batch is left out.
        collate: makes an element of the rows.
        worker_init: called with the number of each worker process before it reads anything.
    """

    kind: ClassVar[str] = "DataLoader"

    dataset: Any
    iterable: bool
    batch_size: int | None
    batched: bool
    drop_last: bool
    collate: CollateFunction
    worker_init: Callable[[int], object] | None

    def fetcher(self, request: FetchRequest) -> Fetcher:
        """The fetcher of a worker process; torch's `get_worker_info` then describes the worker."""
        seed_worker(request)
        seed = request.seed + request.worker
        _torch_worker._worker_info = _torch_worker.WorkerInfo(
            id=request.worker, num_workers=request.workers, seed=seed, dataset=self.dataset
        )
        if self.worker_init is not None:
            self.worker_init(request.worker)
        # A user who seeds the generators in each worker has them run on from there; else each batch has its own draws.
        return self._fetcher(collate_in_worker, seeds=self.worker_init is None)

    def local_fetcher(self) -> Fetcher:
        """A fetcher that runs in this process as it is."""
        return self._fetcher(collate_here, seeds=False)

    @property
    def collates_by_default(self) -> bool:
        return self.collate is default_collate

    def _fetcher(self, default: CollateFunction, *, seeds: bool) -> Fetcher:
        """The fetcher; `default` replaces torch's default collation, by the same rules."""
        collate = default if self.collates_by_default else self.collate
        return (StreamFetcher if self.iterable else MapFetcher)(self, collate, seeds=seeds)


class MapFetcher:
    """Makes the elements of a map-style dataset."""

    def __init__(self, source: DatasetSource, collate: CollateFunction, *, seeds: bool) -> None:
        self._seeds = seeds
        self._seed = 0
        self._element = _element_of(source, collate)

    def begin(self, request: FetchRequest) -> None:
        self._seed = request.seed

    def fetch(self, number: int, key: object) -> object:
        if self._seeds:
            seed_batch(self._seed, number)
        try:
            return self._element(key)
        except StopIteration as error:
            raise RuntimeError("the dataset raised StopIteration for an index; raise IndexError or KeyError") from error

    def position(self) -> Json:
        return None


def _element_of(source: DatasetSource, collate: CollateFunction) -> Callable[[Any], object]:
    """The function that makes an element of a key."""
    dataset = source.dataset
    get_item = dataset.__getitem__
    if not source.batched:
        return lambda key: collate(get_item(key))
    if source.collates_by_default and (gather := _gather_of(dataset)) is not None:
        return gather
    get_items = getattr(dataset, "__getitems__", None)
    if get_items:
        return lambda keys: collate(get_items(keys))
    return lambda keys: collate([*map(get_item, keys)])


def _gather_of(dataset: Any) -> Callable[[Sequence[int]], object] | None:
    """The function that gathers a batch of a `TensorDataset`, or of a part of one, at once; None for other datasets.

    The result is that of the default collation of its rows.
    """
    parts: list[Sequence[int]] = []
    while type(dataset) is Subset:
        parts.append(dataset.indices)
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    columns = [_taker(column) for column in dataset.tensors]

    def gather(keys: Sequence[int]) -> object:
        for indices in parts:
            keys = [indices[key] for key in keys]
        index = np.asarray(keys)
        return [take(index) for take in columns]

    return gather


def _taker(column: torch.Tensor) -> Callable[[npt.NDArray[np.int64]], torch.Tensor]:
    """The function that gives rows of a tensor. NumPy gathers small rows faster, in one thread."""
    try:
        array = column.numpy()
    except (TypeError, RuntimeError):  # on a device, part of a graph, or of a dtype of torch alone
        return lambda index: column[torch.from_numpy(index)]
    return lambda index: torch.from_numpy(array.take(index, axis=0))


class StreamFetcher:
    """Makes the elements of an iterable dataset; each worker iterates a copy of it.

    Its position is the number of elements that it has made, and the state of the iterator or the dataset, if one has
    any. With a state it continues at once; else it iterates from the start, and drops the rows of the elements before.
    At the end of the dataset, the position has the state of the dataset itself, with which the next epoch begins.
    """

    def __init__(self, source: DatasetSource, collate: CollateFunction, *, seeds: bool) -> None:
        self._source = source
        self._size = source.batch_size or 1
        self._collate = collate
        self._seeds = seeds
        self._seed = self._worker = self._count = 0
        self._ended = False
        self._rows: Iterator[object] = iter(())
        self._own_state = source.dataset if has_state(source.dataset) else None
        self._stateful: Any = None

    def begin(self, request: FetchRequest) -> None:
        count, state, ended = _fields(request.position)
        dataset = self._source.dataset
        self._seed, self._worker = request.seed, request.worker
        self._count, self._ended = -1, ended
        self._seed_next()
        if state is not None and self._own_state is not None and (count or not _equal(dataset.state_dict(), state)):
            dataset.load_state_dict(state)
        if self._ended:
            self._count = count
            return
        self._rows = iter(dataset)
        self._stateful = self._rows if has_state(self._rows) else self._own_state
        own = count > 0 and state is not None and self._stateful is self._rows
        # A dataset that is its own iterator has the state already, unless `iter` has reset it.
        if own and not _equal(self._stateful.state_dict(), state):
            self._stateful.load_state_dict(state)
        self._count = count if state is not None else 0
        with suppress(FetchEnd):  # the first fetch raises it
            while self._count < count:
                self._next_rows()

    def fetch(self, number: int, key: object) -> object:
        rows = self._next_rows()
        return self._collate(rows if self._source.batch_size else rows[0])

    def position(self) -> Json:
        holder = self._own_state if self._ended else self._stateful
        return [self._count, None if holder is None else holder.state_dict(), self._ended]

    def _next_rows(self) -> list[object]:
        self._seed_next()
        # `islice` would call `iter` for each batch, which resets a dataset that is its own iterator.
        rows = [] if self._ended else [*map(next, repeat(self._rows, self._size))]
        self._ended = len(rows) < self._size
        if not rows or (self._ended and self._source.drop_last):
            raise FetchEnd
        self._count += 1
        return rows

    def _seed_next(self) -> None:
        if self._seeds:
            seed_batch(self._seed, self._worker, self._count)


def next_epoch(position: Json) -> Json:
    """The position at the beginning of the epoch after the one that has ended there; None if it has not."""
    _, state, ended = _fields(position)
    return [0, state, False] if ended else None


def _fields(position: Json) -> tuple[int, Any, bool]:
    """The elements that were made, the state, and whether there are no more."""
    count, state, *ended = cast("list[Any]", position or [0, None])
    return count, state, ended == [True]


def _equal(state: object, other: object) -> bool:
    try:
        return bool(state == other)
    except (TypeError, ValueError, RuntimeError):  # arrays in it
        return False


def has_state(value: Any) -> bool:
    """Whether a value has a state that this loader can save and load.

    The `state_dict` of some datasets takes arguments that only the loader of their library has.
    """
    return _accepts(getattr(value, "state_dict", None)) and _accepts(getattr(value, "load_state_dict", None), {})


def _accepts(method: Any, *arguments: object) -> bool:
    if not callable(method):
        return False
    try:
        signature(method).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a compiled method has no signature
        pass
    return True


def collate_in_worker(rows: Sequence[object]) -> object:
    """As `default_collate`, but arrays are stacked right in the memory that the consumer shares."""
    return _collated(tensor_data, rows)


def collate_here(rows: Sequence[object]) -> object:
    """As `default_collate`, but faster for arrays and numbers."""
    return _collated(tensors, rows)


def _collated(collate: CollateFunction, rows: Sequence[object]) -> object:
    try:
        return collate(rows)
    except Exception:
        return default_collate(rows)  # type: ignore[arg-type]  # torch's own error, or what only torch can collate


def seed_worker(request: FetchRequest) -> None:
    """Seeds the generators of a worker process as torch does."""
    seed = request.seed + request.worker
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(_torch_worker._generate_state(request.seed, request.worker))


def seed_batch(*words: int) -> None:
    """Seeds the generators of Python, NumPy and torch for one batch."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    random.seed(number)
    np.random.seed(number & 0xFFFFFFFF)
    torch.default_generator.manual_seed(number)
