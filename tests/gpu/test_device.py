"""Elements arrive on a real GPU, whole and in order, while the consumer's stream is busy."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import feedpipe as fp
from feedpipe.compat import DataLoader

from ..seeing.bottlenecks import napping

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


def test_memory_of_workers_is_used_again_only_after_its_copy() -> None:
    """The regions of the shared memory hold two elements, so workers write them again while the copies lag behind."""
    service = fp.MultiProcess(2, memory=4 * 4 * SIZE)
    with fp.Loader(fp.from_sequence(range(ROWS)).map(big), service, device="cuda") as loader:
        sums = []
        for element in loader:
            torch.cuda._sleep(3_000_000)
            sums.append(element["x"].double().sum())
    assert [round(float(total) / SIZE) for total in sums] == list(range(ROWS))


class Pair(NamedTuple):
    ids: torch.Tensor
    text: str


def nested(number: int) -> dict[str, Any]:
    return {
        "lists": [torch.tensor([number]), torch.tensor([number + 1.5])],
        "pair": Pair(torch.tensor([number], dtype=torch.int32), str(number)),
        "ints": torch.arange(number, number + 5, dtype=torch.int16),
        "bits": torch.tensor([number % 2 == 0]),
        "empty": torch.empty(0, 3),
        "text": [f"row {number}"],
        "none": None,
    }


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("workers", [0, 2])
def test_nested_elements(workers: int) -> None:
    with fp.Loader(fp.from_sequence(range(9)).map(nested), workers=workers, device="cuda") as loader:
        elements = list(loader)
    assert all(element["pair"].ids.is_cuda and element["lists"][1].is_cuda for element in elements)
    assert [plain(element) for element in elements] == [plain(nested(number)) for number in range(9)]


def test_an_error_of_a_copy_comes_after_the_elements_before_it() -> None:
    def row(number: int) -> torch.Tensor:
        return torch.ones(3, device="meta" if number == 2 else "cpu")  # `meta` has no data to pin

    elements = iter(fp.Loader(fp.from_sequence(range(4)).map(row), device="cuda"))
    assert [next(elements).tolist() for _ in range(2)] == [[1, 1, 1]] * 2
    with pytest.raises((RuntimeError, NotImplementedError)):
        next(elements)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_is_closed_during_a_copy(workers: int) -> None:
    pipe = fp.from_sequence(range(ROWS)).map(big)
    for _ in range(5):
        with fp.Loader(pipe, workers=workers, device="cuda") as loader:
            torch.cuda._sleep(10_000_000)
            first = next(iter(loader))
        assert float(first["x"].double().mean()) == 0
    torch.cuda.synchronize()


def test_data_parallel() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 2)
    rows = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    pipe = fp.from_arrays({"x": rows}).batch(16).collate()
    expected = [model(batch["x"]) for batch in fp.Loader(pipe)]
    parallel = torch.nn.DataParallel(model.cuda())
    for batch, before in zip(fp.Loader(pipe, device="cuda"), expected, strict=True):
        torch.testing.assert_close(parallel(batch["x"]).cpu(), before, rtol=1e-3, atol=1e-3)


SANITIZED = """
import torch
import feedpipe as fp

pipe = fp.from_sequence(range(30)).map(lambda number: {"x": torch.full((1 << 16,), float(number))})
with fp.Loader(pipe, workers=2, device="cuda") as loader:
    for element in loader:
        element["x"].add_(1).sum()
torch.cuda.synchronize()
"""


def test_the_sanitizer_of_torch_finds_no_race() -> None:
    environment = {**os.environ, "TORCH_CUDA_SANITIZER": "1"}
    ended = subprocess.run([sys.executable, "-c", SANITIZED], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "CSAN detected" not in ended.stderr


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_report_says_how_often_the_gpu_has_run_dry(is_slow: bool) -> None:
    rows = fp.from_sequence(range(3000))
    pipe = rows.map(napping).batch(30) if is_slow else rows.batch(30)  # 60 ms an element
    loader = fp.Loader(pipe.collate(), device="cuda")
    for element in loader:
        torch.cuda._sleep(20_000_000)  # some 10 ms
        element.sum()
    dry = loader.report().dry
    assert dry is not None
    assert dry > 0.9 if is_slow else dry < 0.1


def test_decoding_on_the_device() -> None:
    """What comes after `remote()` runs in the training process, so it may use the device."""
    pipe = fp.from_sequence(range(8)).map(big).remote().map(lambda row: row["x"].to("cuda").mul(2))
    with fp.Loader(pipe, workers=2) as loader:
        assert [float(element.mean()) for element in loader] == [2.0 * number for number in range(8)]


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
