"""`feedpipe.compat.DataLoader` resumes exactly: rows, order and draws."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler, IterableDataset, Sampler, get_worker_info

from feedpipe.compat import DataLoader
from feedpipe.errors import StateError

from .torch_datasets import forked

Make = Callable[[], Any]


def plain(batches: Any) -> list[Any]:
    return [_plain(batch) for batch in batches]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def disturb() -> None:
    """Whatever the training loop draws."""
    torch.rand(3)
    random.random()
    np.random.random()


def check_resume(make: Make, stop: int, *, epochs: int = 0) -> None:
    """A loader that loads the state gives what the first one still gives, also in the next epoch."""
    first = make()
    for _ in range(epochs):
        assert plain(first)
    elements = iter(first)
    plain(itertools.islice(elements, stop))
    state = json.loads(json.dumps(first.state_dict()))
    expected = plain(elements)
    if not expected and stop:
        return  # the state means the next epoch, see below
    resumed = make()
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    disturb()
    elements = iter(resumed)
    head = plain(itertools.islice(elements, 1))
    again = make()  # from there once more
    again.load_state_dict(resumed.state_dict())
    disturb()
    rest = plain(again)
    if len(expected) > 1:
        assert head + rest == expected
    assert head + plain(elements) == expected


@given(
    count=st.integers(1, 30),
    batch_size=st.none() | st.integers(1, 7),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    seeded=st.booleans(),
    stop=st.integers(0, 30),
    epochs=st.integers(0, 1),
)
def test_any_place(
    count: int, batch_size: int | None, shuffle: bool, drop_last: bool, seeded: bool, stop: int, epochs: int
) -> None:
    drop_last = drop_last and batch_size is not None and batch_size <= count
    data: Any = list(range(count))

    def make() -> Any:
        generator = torch.Generator().manual_seed(4) if seeded else None
        return DataLoader(data, batch_size, shuffle, drop_last=drop_last, generator=generator)

    check_resume(make, stop, epochs=epochs)


class Drawing(Sampler[int]):
    """Draws its indices from the generators that the whole process shares."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __iter__(self) -> Iterator[int]:
        if self.how == "python":
            return iter(random.sample(range(20), 20))
        return iter((np.random.permutation(20) if self.how == "numpy" else torch.randperm(20)).tolist())


@pytest.mark.parametrize("how", ["python", "numpy", "torch"])
@pytest.mark.parametrize("workers", [0, 2])
def test_samplers_that_draw_from_shared_generators(how: str, workers: int) -> None:
    data: Any = list(range(20))
    check_resume(lambda: DataLoader(data, 3, sampler=Drawing(how), **forked(workers)), 3)


def test_a_distributed_sampler_keeps_its_epoch() -> None:
    data: Any = list(range(30))

    def make(epoch: int) -> Any:
        sampler: Any = DistributedSampler(data, 3, 1)
        sampler.set_epoch(epoch)
        return DataLoader(data, 2, sampler=sampler)

    first = make(5)
    elements = iter(first)
    next(elements)
    resumed = make(0)
    resumed.load_state_dict(first.state_dict())
    assert plain(resumed) == plain(elements)


def test_draws_of_the_dataset_repeat() -> None:
    class Noisy(torch.utils.data.Dataset[list[float]]):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> list[float]:
            return [index, random.random(), float(np.random.random()), float(torch.rand(()))]

    for epochs in (0, 1):
        for persistent in (False, True):
            check_resume(
                lambda keep=persistent: DataLoader(Noisy(), 3, True, persistent_workers=keep, **forked(2)),  # type: ignore[misc]
                2,
                epochs=epochs,
            )


class Stream(IterableDataset[int]):
    """Worker w gives `count + w` numbers, and draws some of them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        start = 0 if info is None else 100 * info.id
        for number in range(start, start + self.count + start // 100):
            yield number if info is None else number + 1000 * random.randrange(9)


class Epochs(IterableDataset[int]):
    """Counts its epochs; worker w gives 11 + 2 w numbers."""

    def __init__(self) -> None:
        self.epoch = self.position = self.read = 0

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        while self.position < 11 + 2 * worker:
            self.position += 1
            self.read += 1
            yield 100 * self.epoch + 10 * worker + self.position
        self.epoch += 1
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


@pytest.mark.parametrize("make", [lambda: Stream(11), Epochs])
@pytest.mark.parametrize("stop", [0, 1, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets(make: Make, stop: int, workers: int) -> None:
    check_resume(lambda: DataLoader(make(), 2, **forked(workers)), stop)


def test_a_stateful_iterable_dataset_reads_nothing_again() -> None:
    loader = DataLoader(Epochs(), 2)
    next(iter(loader))
    resumed = DataLoader(Epochs(), 2)
    resumed.load_state_dict(loader.state_dict())
    assert sum(len(batch) for batch in resumed) == 9
    assert resumed.dataset.read == 9  # type: ignore[attr-defined]


@pytest.mark.parametrize("batch_size", [None, 2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_of_an_iterable_dataset_lasts_from_epoch_to_epoch(batch_size: int | None, workers: int) -> None:
    def make() -> Any:
        return DataLoader(Epochs(), batch_size, persistent_workers=workers > 0, **forked(workers))

    epochs = [plain(loader) for loader in [make()] for _ in range(3)]
    assert epochs[1] != epochs[0] and len(epochs[2]) == len(epochs[0])
    for stop in (1, len(epochs[1]) - 1, len(epochs[1]), None):
        loader = make()
        plain(loader)
        plain(itertools.islice(iter(loader), stop))  # None: up to the end, which the loader has seen
        resumed = make()
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        rest = plain(resumed)
        if stop is not None and stop < len(epochs[1]):
            assert rest == epochs[1][stop:]
            rest = plain(resumed)
        assert rest == epochs[2]


@pytest.mark.parametrize("data", [[1, 2, 3, 4], Stream(4)])
@pytest.mark.parametrize("seen", [False, True])
def test_a_state_after_the_last_batch_means_the_next_epoch(data: Any, seen: bool) -> None:
    loader = DataLoader(data, 2)
    elements = iter(loader)
    plain(itertools.islice(elements, 2))
    if seen:
        assert next(elements, None) is None
    state = loader.state_dict()
    resumed = DataLoader(data, 2)
    resumed.load_state_dict(state)
    assert plain(resumed) == plain(DataLoader(data, 2))
    assert len(plain(resumed)) == 2


def test_states_that_do_not_fit() -> None:
    data: Any = list(range(20))
    state = DataLoader(data, 2).state_dict()
    for options, message in (
        ({"batch_size": 3}, "batch_size 2, and this loader has 3"),
        ({"shuffle": True}, "sampler 'SequentialSampler', and this loader has 'RandomSampler'"),
        ({"drop_last": True}, "drop_last False"),
        ({"generator": torch.Generator()}, "generators 0, and this loader has 1"),
    ):
        with pytest.raises(StateError, match=message):
            DataLoader(data, **{"batch_size": 2, **options}).load_state_dict(state)
    with pytest.raises(StateError, match="rows 20, and this loader has 19"):
        DataLoader(data[1:], 2).load_state_dict(state)
    with pytest.raises(StateError, match="num_workers 0, and this loader has 1"):
        DataLoader(Stream(3), **forked(1)).load_state_dict(DataLoader(Stream(3)).state_dict())
    with pytest.raises(StateError, match="is no state of this version"):
        DataLoader(data).load_state_dict({"epoch": 3})
