"""`collate` of objects with fields: dataclasses and attrs classes become one object of their class."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import DataError
from feedpipe.testing import check_operator

from ...support.torch import map_tensors
from .collating import Plain, Runs, collated, here_and_sent


@dataclass(frozen=True)
class Frozen:
    x: Any
    name: Any = ""
    inner: Any = ""


@dataclass(slots=True)
class Slots:
    x: Any
    y: Any


@dataclass
class Checked:
    """Counts its calls, and needs tensors once it is collated."""

    calls: ClassVar[list[Any]] = []
    x: Any

    def __post_init__(self) -> None:
        self.calls.append(self.x)
        self.width = self.x.shape[-1]


@dataclass
class Derived:
    x: Any
    total: Any = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.x)


@dataclass
class Scaled:
    x: Any
    scale: InitVar[int]

    def __post_init__(self, scale: int) -> None:
        self.x = self.x * scale


@here_and_sent
def test_dataclasses(run: Runs) -> None:
    rows = [Frozen(np.full(2, i), f"n{i}", {"a": Plain(i), "b": (i, Slots(i, 0.5))}) for i in range(3)]
    whole = collated(rows, run)
    assert type(whole) is Frozen and whole.x.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert whole.name == ["n0", "n1", "n2"]
    assert type(whole.inner["a"]) is Plain and torch.equal(whole.inner["a"].x, torch.arange(3))
    numbers, slots = whole.inner["b"]
    assert numbers.tolist() == [0, 1, 2] and type(slots) is Slots
    assert slots.x.tolist() == [0, 1, 2] and slots.y.dtype == torch.float64
    assert type(collated([{"p": Plain(1)}] * 2, run, format="numpy")["p"].x) is np.ndarray


@here_and_sent
def test_a_class_is_called_once_with_its_collated_fields(run: Runs) -> None:
    rows = [Checked(np.ones(4)), Checked(np.zeros(4))]
    Checked.calls.clear()
    whole = collated(rows, run)
    assert whole.width == 4 and whole.x.shape == (2, 4)
    assert [type(x) for x in Checked.calls] == [torch.Tensor]
    again = map_tensors(whole, lambda tensor: tensor + 1)
    assert again is not whole and again.x[1].tolist() == [1] * 4 and again.width == 4
    assert len(Checked.calls) == 1


@here_and_sent
def test_fields_that_are_no_arguments_are_set(run: Runs) -> None:
    whole = collated([Derived([1, 2]), Derived([3, 4])], run)
    assert [x.tolist() for x in whole.x] == [[1, 3], [2, 4]] and whole.total.tolist() == [3, 7]
    assert collated([Scaled(np.ones(1), 2), Scaled(np.ones(1), 3)], run).x.tolist() == [[2], [3]]


@here_and_sent
def test_attrs_classes(run: Runs) -> None:
    import attrs

    @attrs.define
    class Sample:
        x: Any
        _hidden: Any = attrs.field(kw_only=True)

    @attrs.frozen
    class Old:
        x: Any
        twice: Any = attrs.field(init=False, default=0)

    whole = collated([{"s": Sample(np.full(2, i), hidden=i), "o": Old(i)} for i in range(2)], run)
    assert type(whole["s"]) is Sample and whole["s"].x.tolist() == [[0, 0], [1, 1]]
    assert whole["s"]._hidden.tolist() == [0, 1]
    assert type(whole["o"]) is Old and whole["o"].x.tolist() == [0, 1] and whole["o"].twice.tolist() == [0, 0]


def test_a_class_that_refuses_tensors_is_an_error_with_its_reason() -> None:
    @dataclass
    class Positive:
        x: float

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

    with pytest.raises(DataError, match="field `p`: Boolean value of Tensor .* is ambiguous; make them agree"):
        collated([{"p": Positive(1)}, {"p": Positive(2)}])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_records(workers: int) -> None:
    pipe = fp.from_sequence([Frozen(np.full(2, float(i)), str(i)) for i in range(10)]).shuffle().batch(4).collate()
    with fp.Loader(pipe, workers=workers, seed=3, device="cpu") as loader:
        batches = list(loader)
    assert all(type(batch) is Frozen for batch in batches)
    assert sorted(name for batch in batches for name in batch.name) == sorted(map(str, range(10)))
    assert all(batch.x[:, 0].tolist() == [float(name) for name in batch.name] for batch in batches)


def test_keeps_the_law_of_cursors() -> None:
    rows = [Plain(i) for i in range(13)]
    check_operator(fp.from_sequence(rows).batch(4).collate().map(lambda batch: batch.x))
