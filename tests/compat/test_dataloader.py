"""`feedpipe.compat.DataLoader` gives what torch's gives, as torch's own tests describe that."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data
from torch.utils.data import Dataset, TensorDataset

import feedpipe as fp
from feedpipe.compat import DataLoader

from .torch_datasets import Part, Squares, assert_same, both, forked

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on machines of few cores
OPTIONS: dict[str, dict[str, Any]] = {
    "sequential": {"batch_size": 3},
    "shuffle": {"batch_size": 3, "shuffle": True},
    "drop_last": {"batch_size": 3, "shuffle": True, "drop_last": True},
    "generator": {"batch_size": 6, "shuffle": True, "generator": torch.Generator()},
    "rows": {"batch_size": None},
    "shuffled rows": {"batch_size": None, "shuffle": True},
    "sampler": {"batch_size": 4, "sampler": range(2, 12)},
    "batch sampler": {"batch_sampler": [(0, 1), (2, 3, 4), (5, 6)]},
    "collate": {"batch_size": 4, "collate_fn": lambda rows: {"ids": [row[2] for row in rows], "count": len(rows)}},
    "weighted": {"batch_size": 4, "sampler": torch_data.WeightedRandomSampler([0.1, 0.9, 3.0] * 5, 10)},
    "distributed": {"batch_size": 4, "sampler": torch_data.DistributedSampler(Squares(), 3, 1)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_batches_order_and_draws_are_those_of_torch(name: str) -> None:
    expected, ours = both(Squares(), **OPTIONS[name])
    assert_same(ours, expected)


Pair = namedtuple("Pair", ["data", "label"])
DATASETS: dict[str, Any] = {
    "list": [torch.ones(2) * i for i in range(5)],
    "dicts": [{"x": np.float32(i), "y": {"z": [i, str(i)]}} for i in range(5)],
    "named tuples": [Pair(np.arange(3) * i, f"{i}") for i in range(5)],
    "bytes and bools": [(b"x", i > 2, 1.5 * i) for i in range(5)],
    "arrays": np.arange(12).reshape(6, 2),
    "mixed numbers": [1, 2.5, 3],
    "tensors": TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6)),
    "subset": torch_data.Subset(TensorDataset(torch.arange(12.0)), [3, 1, 4, 1, 5]),
    "concat": Squares(4) + Squares(3),
    "stack": torch_data.StackDataset(a=torch.arange(5), b=torch.arange(5) * 2),
}


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("batch_size", [2, None])
def test_elements_are_those_of_torch(name: str, batch_size: int | None) -> None:
    expected, ours = both(DATASETS[name], batch_size=batch_size)
    assert_same(ours, expected)


@pytest.mark.parametrize(("batch_size", "drop_last"), [(None, False), (7, False), (7, True)])
def test_workers_of_an_iterable_dataset_may_give_different_numbers(batch_size: int | None, drop_last: bool) -> None:
    expected, ours = both(Part([0, 4, 20]), batch_size=batch_size, drop_last=drop_last, **forked(3))
    assert sorted(map(str, ours[0])) == sorted(map(str, expected[0]))
    assert_same(ours[0], expected[0])
    assert_same(ours[1], expected[1])


def test_a_sampler_gives_lists_of_indices() -> None:
    class Bulk(Dataset[torch.Tensor]):
        def __getitem__(self, indices: Any) -> torch.Tensor:
            assert isinstance(indices, list)
            return torch.as_tensor(indices)

    sampler = [[3, 1], [2], [0, 4, 5]]
    for workers in (0, 2):
        batches = list(DataLoader(Bulk(), batch_size=None, sampler=sampler, **forked(workers)))
        assert [batch.tolist() for batch in batches] == sampler


def test_keys_of_any_kind_and_getitems() -> None:
    class Named(dict[str, int]):
        def __getitems__(self, names: list[str]) -> list[int]:
            return [self[name] for name in names]

    data = Named(a=1, b=2, c=3)
    for workers in (0, 1):
        loader = DataLoader(data, batch_sampler=[["c", "a"], ["b"]], **forked(workers))  # type: ignore[arg-type]
        assert [batch.tolist() for batch in loader] == [[3, 1], [2]]


def test_a_sampler_without_end_is_read_as_far_as_needed() -> None:
    taken = []

    def endless() -> Iterator[int]:
        for number in itertools.count():
            taken.append(number)
            yield number % 20

    class Endless(torch_data.Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return endless()

    for workers in (0, 2):
        taken.clear()
        loader = DataLoader(
            Squares(), batch_size=2, sampler=Endless(), prefetch_factor=2 if workers else None, **forked(workers)
        )
        rows = [index for batch in itertools.islice(loader, 15) for index in batch[2]]
        assert rows == [str(i % 20) for i in range(30)]
        assert len(taken) <= 30 + workers * 2 * 2


def test_it_is_a_dataloader_of_torch() -> None:
    loader = DataLoader(Squares(), batch_size=3)
    assert isinstance(loader, torch_data.DataLoader)
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, {})
    copy = pickle.loads(pickle.dumps(loader))
    assert_same(list(copy), list(loader))


def test_all_arguments_are_attributes_from_which_a_trainer_makes_the_loader_again() -> None:
    loader = DataLoader(Squares(10), batch_size=2, distribute=fp.Ray(2))
    names = [name for name in inspect.signature(DataLoader).parameters if name != "shuffle"]
    arguments = {name: getattr(loader, name) for name in names if name not in ("batch_size", "sampler", "drop_last")}
    again: Any = DataLoader(**arguments)
    assert (again.distribute, again.num_workers) == (loader.distribute, 2)
