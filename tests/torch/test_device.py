"""Elements on their way to a device, with a backend that records what a device would do."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanWarning
from feedpipe.torch import device as module

from ..seeing.bottlenecks import napping
from ..support.torch import on_device


@dataclass
class Boxes:
    boxes: Any
    count: Any


class Recorder(module.Backend):
    """A device whose copies are numbered."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.marks = 0  # of the consumer's work
        self.passed: Container[object] = ()  # marks whose work is done when the next element comes

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        self.log.append(f"pin {int(tensor)}")
        return tensor + 100

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        self.log.append(f"copy {int(tensor)}")
        return tensor + 1000

    def record(self) -> object:
        self.log.append("record")
        return len(self.log)

    def mark(self) -> object:
        self.marks += 1
        return self.marks

    def has_passed(self, event: object) -> bool:
        return event in self.passed

    def wait(self, event: object, tensors: Sequence[torch.Tensor]) -> None:
        self.log.append(f"wait for {event} with {[int(tensor) for tensor in tensors]}")


def tensors(*numbers: int) -> list[torch.Tensor]:
    return [torch.tensor(number) for number in numbers]


def run(items: Iterator[Any], recorder: Recorder) -> Iterator[Any]:
    return on_device(items, recorder, lambda item, move: move(item))


@pytest.mark.parametrize(("passed", "share"), [(range(0), "0%"), (range(2000), "100%")])
def test_a_report_says_how_often_the_device_has_run_dry(
    monkeypatch: pytest.MonkeyPatch, passed: range, share: str
) -> None:
    recorder = Recorder()
    recorder.passed = passed
    monkeypatch.setattr(module, "backend_for", lambda device, pin_memory: recorder)
    loader = fp.Loader(fp.from_sequence(range(1200)).map(napping).map(torch.tensor), device="cpu")
    assert loader.report().dry is None
    assert len(list(loader)) == 1200
    report = loader.report()
    assert report.dry == report.metrics()["feedpipe/dry"] == (1 if passed else 0)
    assert f"for data, and the GPU ran dry in {share} of the steps" in report.verdict


def test_an_error_of_a_copy_comes_after_the_elements_before_it() -> None:
    class Full(Recorder):
        def copy(self, tensor: torch.Tensor) -> torch.Tensor:
            if int(tensor) == 103:
                raise MemoryError("the device is full")
            return super().copy(tensor)

    elements = run(iter(tensors(1, 2, 3)), Full())
    assert [int(next(elements)) for _ in range(2)] == [1101, 1102]
    with pytest.raises(MemoryError, match="the device is full"):
        next(elements)


def test_a_loader_moves_its_elements_and_keeps_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(module, "backend_for", lambda device, pin_memory: recorder)
    pipe = fp.from_sequence(range(6)).map(torch.tensor)
    plain = fp.Loader(pipe)
    loader = fp.Loader(pipe, device="cpu")
    for (element, info), (other, plain_info) in zip(loader.with_info(), plain.with_info(), strict=True):
        assert int(element) == int(other) + 1100
        assert info.state_dict() == plain_info.state_dict()
    state = None
    for element in loader:
        if int(element) == 1102:
            state = loader.state_dict()
            break
    resumed = fp.Loader(pipe, device="cpu")
    assert state is not None
    resumed.load_state_dict(state)
    assert [int(element) for element in resumed] == [1103, 1104, 1105]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_device_without_streams(workers: int) -> None:
    pipe = fp.from_arrays({"x": np.arange(10)}).batch(4).collate()
    with fp.Loader(pipe, workers=workers, device="cpu") as loader:
        assert [batch["x"].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert len(loader) == 3
    with fp.Loader(pipe.map(lambda batch: batch["x"]), device="meta") as loader:
        assert {element.device.type for element in loader} == {"meta"}


@pytest.mark.parametrize("workers", [0, 1])
def test_no_cuda_device(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with fp.Loader(fp.from_sequence(range(2)), device="cuda:0", workers=workers) as loader:
        for _ in range(2):
            with pytest.raises(
                ArgumentError, match="`device` is 'cuda:0', but torch finds no CUDA device; leave it out"
            ):
                next(iter(loader))


def test_bad_arguments() -> None:
    pipe = fp.from_sequence([1])
    with pytest.raises(ArgumentError, match="`device` must be a device of torch but got: 'gpu'"):
        fp.Loader(pipe, device="gpu")
    with pytest.raises(ArgumentTypeError, match="`pin_memory` must be True or False but got: 1"):
        fp.Loader(pipe, pin_memory=1)  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.warns(PlanWarning, match="nothing is pinned"):
            assert list(fp.Loader(pipe, pin_memory=True)) == [1]


@pytest.mark.parametrize("pin_memory", [False, True])
@pytest.mark.filterwarnings("ignore:`pin_memory` is True")
def test_a_loader_moves_nested_tensors_and_records(pin_memory: bool) -> None:
    rows = fp.from_sequence([Boxes([1.0] * n, n) for n in range(1, 7)])
    pipe = rows.batch(3).collate(ragged={"boxes": "nested"})
    for batch in fp.Loader(pipe, device="cpu", pin_memory=pin_memory):
        assert type(batch) is Boxes and batch.boxes.is_nested
        assert batch.count.tolist() == [len(part) for part in batch.boxes.unbind()]
