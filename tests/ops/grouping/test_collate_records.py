"""`collate` of objects with fields: dataclasses and attrs classes become one object of their class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import feedpipe as fp
from feedpipe.testing import check_operator

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


def test_keeps_the_law_of_cursors() -> None:
    rows = [Plain(i) for i in range(13)]
    check_operator(fp.from_sequence(rows).batch(4).collate().map(lambda batch: batch.x))
