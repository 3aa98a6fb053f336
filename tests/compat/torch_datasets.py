"""Datasets of torch, and the batches that torch's own loader gives for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data as torch_data
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from feedpipe.compat import DataLoader


class Squares(Dataset[Any]):
    def __init__(self, count: int = 20) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index)), index * index, str(index)


class Part(IterableDataset[int]):
    """Worker w gives `sizes[w]` numbers."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        return iter(range(self.sizes[0 if info is None else info.id]))


def forked(workers: int) -> dict[str, Any]:
    """Forking is the quickest start."""
    return {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {"num_workers": 0}


def both(dataset: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """Two epochs of torch's and of ours, from the same seed."""
    epochs: list[list[Any]] = []
    for cls in (torch_data.DataLoader, DataLoader):
        torch.manual_seed(3)
        if isinstance(options.get("generator"), torch.Generator):
            options["generator"] = torch.Generator().manual_seed(9)
        loader: Any = cls(dataset, **options)
        epochs.append([list(loader), list(loader), torch.rand(1)])
    return epochs[0], epochs[1]


def assert_same(ours: Any, expected: Any) -> None:
    assert type(ours) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert ours.dtype == expected.dtype
        assert torch.equal(ours, expected)
    elif isinstance(expected, dict):
        assert_same(list(ours.items()), list(expected.items()))
    elif isinstance(expected, (list, tuple)):
        assert len(ours) == len(expected)
        for one, other in zip(ours, expected, strict=True):
            assert_same(one, other)
    else:
        assert ours == expected
