"""Pipes as datasets of torch's DataLoader: each element once, on any number of ranks and workers."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, get_worker_info

import feedpipe as fp
from feedpipe.compat import datasets
from feedpipe.errors import ArgumentError, ArgumentTypeError, StateError

fork: Any = {"multiprocessing_context": "fork"}


def squares(count: int) -> fp.Pipe[int]:
    return fp.from_sequence(range(count)).map(lambda x: x * x)


def streamed(count: int) -> fp.Pipe[int]:
    return fp.from_sequence(range(count)).filter(lambda x: x % 5 != 1)


def be_worker(number: int, workers: int) -> None:
    """Has the datasets take this process for a worker; a fixture undoes it."""
    datasets.get_worker_info = lambda: SimpleNamespace(id=number, num_workers=workers)  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _no_worker() -> Iterator[None]:
    yield
    datasets.get_worker_info = get_worker_info


def as_workers(dataset: Any, workers: int) -> list[Iterator[Any]]:
    """What the workers of a DataLoader iterate: each has a copy of the dataset."""
    iterators = []
    for number in range(workers):
        be_worker(number, workers)
        iterators.append(iter(copy.copy(dataset)))
    return iterators


def in_turn(iterators: list[Iterator[Any]]) -> list[Any]:
    """As a DataLoader takes elements from its workers."""
    elements: list[Any] = []
    while iterators:
        for iterator in list(iterators):
            element = next(iterator, None)
            if element is None:
                iterators.remove(iterator)
            else:
                elements.append(element)
    return elements


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_dataloader_gives_what_a_loader_gives(workers: int, shuffled: bool) -> None:
    pipe = squares(20).shuffle() if shuffled else squares(20)
    dataset = pipe.batch(3).as_iterable_dataset(seed=5)
    loader: Any = DataLoader(dataset, batch_size=None, num_workers=workers, **fork if workers else {})
    assert len(loader) == 7
    assert list(loader) == list(fp.Loader(pipe.batch(3), seed=5))


SIZES = st.integers(0, 60)


@given(SIZES, st.integers(1, 4), st.integers(1, 5))
def test_indexed_ranks_are_even_and_in_order(count: int, ranks: int, workers: int) -> None:
    pipe = fp.from_sequence(range(1, count + 1))
    taken = []
    for rank in range(ranks):
        dataset = pipe.as_iterable_dataset(rank=rank, world_size=ranks)
        elements = in_turn(as_workers(dataset, workers))
        assert elements == list(range(rank + 1, count // ranks * ranks + 1, ranks))
        assert len(dataset) == len(elements)
        taken += elements
    assert sorted(taken) == list(range(1, count // ranks * ranks + 1))


@given(SIZES, st.integers(1, 3), st.integers(1, 5))
def test_streamed_ranks_and_workers_give_each_element_once(count: int, ranks: int, workers: int) -> None:
    pipe = fp.from_sequence(range(1, count + 1)).filter(lambda x: x % 5 != 1).shuffle(window=4)
    parts = []
    for rank in range(ranks):
        dataset = pipe.as_iterable_dataset(rank=rank, world_size=ranks, seed=3, even=None)
        parts.append(in_turn(as_workers(dataset, workers)))
    assert sorted(itertools.chain(*parts)) == [x for x in range(1, count + 1) if x % 5 != 1]


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_streamed_shuffle_keeps_its_order_with_more_workers(workers: int) -> None:
    """Until the first shard ends."""
    pipe = streamed(2000).shuffle(window=40)
    expected = list(itertools.islice(fp.Loader(pipe, seed=3), 1000))
    assert in_turn(as_workers(pipe.as_iterable_dataset(seed=3), workers))[:1000] == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_set_epoch_reaches_the_workers(persistent: bool) -> None:
    pipe = squares(30).shuffle()
    for dataset in (pipe.as_iterable_dataset(), pipe.as_map_dataset()):
        loader: Any = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent, **fork)  # type: ignore[arg-type]
        epochs = []
        for epoch in (0, 1, 1, 0):
            dataset.set_epoch(epoch)
            epochs.append(list(loader))
        assert epochs[0] == epochs[3] == list(pipe)
        assert epochs[1] == epochs[2] != epochs[0]
        assert sorted(epochs[1]) == sorted(epochs[0])


def test_a_state_of_another_worker_is_refused() -> None:
    dataset = streamed(30).as_iterable_dataset(rank=0, world_size=2, even=None)
    elements = iter(dataset)
    next(elements)
    with pytest.raises(StateError, match="rank"):
        streamed(30).as_iterable_dataset(rank=1, world_size=2, even=None).load_state_dict(dataset.state_dict())


def test_map_dataset_with_a_sampler_and_default_collation() -> None:
    pipe = fp.from_sequence([{"x": float(i), "name": str(i)} for i in range(10)])
    dataset = pipe.as_map_dataset()
    parts = []
    for rank in range(2):
        sampler: Any = DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=True)  # type: ignore[arg-type]
        loader: Any = DataLoader(dataset, batch_size=2, sampler=sampler, num_workers=1, **fork)  # type: ignore[arg-type]
        parts += [x for batch in loader for x in batch["x"].tolist()]
    assert sorted(parts) == [float(i) for i in range(10)]


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentTypeError, match="needs an indexed pipe"):
        streamed(3).as_map_dataset()
    with pytest.raises(ArgumentError, match="`shards` must be left out"):
        squares(3).as_iterable_dataset(shards=2)
    with pytest.raises(ArgumentError, match="must be given together"):
        squares(3).as_iterable_dataset(rank=1)
    with pytest.raises(ArgumentError, match="`seed` must be >= 0"):
        squares(3).as_iterable_dataset(seed=-1)
    with pytest.raises(ArgumentError, match="`epoch` must be >= 0"):
        squares(3).as_map_dataset().set_epoch(-1)
