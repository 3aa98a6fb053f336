"""Elements arrive on a real GPU, whole and in order, while the consumer's stream is busy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import feedpipe as fp
from feedpipe.compat import DataLoader

ROWS = 64
SIZE = 1 << 18


def big(number: int) -> dict[str, Any]:
    return {"x": torch.full((SIZE,), float(number)), "name": str(number)}


@pytest.mark.parametrize("workers", [0, 2])
def test_elements_are_safe_on_the_current_stream(workers: int) -> None:
    """Each is overwritten after its use: a copy that came too late, or memory freed too early, would show."""
    torch.cuda._sleep(10_000_000)  # the consumer's stream lags behind the copies
    with fp.Loader(fp.from_sequence(range(ROWS)).map(big), workers=workers, device="cuda") as loader:
        sums = []
        for element in loader:
            assert element["x"].is_cuda
            torch.cuda._sleep(1_000_000)
            sums.append(element["x"].double().sum())
            element["x"].fill_(-1)
    assert [round(float(total) / SIZE) for total in sums] == list(range(ROWS))


def test_another_stream_of_the_consumer() -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        sums = [element["x"].double().sum() for element in fp.Loader(fp.from_sequence(range(9)).map(big), device=0)]
    stream.synchronize()
    assert [round(float(total) / SIZE) for total in sums] == list(range(9))


def test_pinning_alone() -> None:
    pipe = fp.from_arrays({"x": np.arange(10)}).batch(4).collate()
    for batch in fp.Loader(pipe, pin_memory=True):
        assert batch["x"].is_pinned()
        assert not batch["x"].is_cuda


def test_states_with_a_device() -> None:
    pipe = fp.from_arrays({"x": np.arange(10)}).shuffle().batch(2).collate()
    loader = fp.Loader(pipe, device="cuda", seed=3)
    elements = iter(loader)
    next(elements)
    resumed = fp.Loader(pipe, device="cuda", seed=3)
    resumed.load_state_dict(loader.state_dict())
    assert [batch["x"].tolist() for batch in resumed] == [batch["x"].tolist() for batch in elements]


class Custom:
    def __init__(self, rows: list[Any]) -> None:
        self.x = torch.stack([row[0] for row in rows])

    def pin_memory(self) -> Custom:
        self.x = self.x.pin_memory()
        return self


@pytest.mark.parametrize("workers", [0, 2])
def test_the_look_alike_pins(workers: int) -> None:
    data = TensorDataset(torch.arange(8.0), torch.arange(8))
    for x, y in DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True):
        assert x.is_pinned()
        assert y.is_pinned()
    for batch in DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True, collate_fn=Custom):
        assert batch.x.is_pinned()
