"""`feedpipe.compat.DataLoader` and pipes ask a source for its iterator once an epoch, even if it is that itself."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset

from feedpipe.compat import DataLoader

from .torch_datasets import forked


class Count(IterableDataset[int]):
    """Its own iterator, which begins again with each `iter`."""

    def __init__(self, rows: int = 12) -> None:
        self.rows = rows
        self.next_row = 0

    def __iter__(self) -> Count:
        self.next_row = 0
        return self

    def __next__(self) -> int:
        if self.next_row >= self.rows:
            raise StopIteration
        self.next_row += 1
        return self.next_row - 1


class CountWithState(Count):
    def state_dict(self) -> dict[str, int]:
        return {"next_row": self.next_row}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next_row = state["next_row"]


class CountWithForeignState(Count):
    """Its states need arguments, as those of MosaicML's `StreamingDataset` do."""

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, int]:
        raise AssertionError

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise AssertionError


def rows(batches: Any) -> list[int]:
    return [row for batch in islice(batches, 20) for row in batch.reshape(-1).tolist()]


DATASETS = (Count, CountWithState, CountWithForeignState)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("size", [None, 2, 5])
@pytest.mark.parametrize("dataset", DATASETS)
def test_a_dataset_that_is_its_own_iterator(dataset: type[Count], size: int | None, workers: int) -> None:
    def make() -> Any:
        return DataLoader(dataset(), batch_size=size, collate_fn=torch.tensor, **forked(workers))

    expected = rows(TorchDataLoader(dataset(), batch_size=size, collate_fn=torch.tensor))
    loader = make()
    assert [rows(loader) for _ in range(2)] == [expected, expected]
    batches = iter(loader)
    taken = rows(islice(batches, 2))
    resumed = make()
    resumed.load_state_dict(loader.state_dict())
    assert [taken + rows(resumed), rows(resumed)] == [expected, expected]
