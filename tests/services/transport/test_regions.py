"""An element holds the memory that its parts lie in, and no other."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from feedpipe.extensions import Rows

from ...support.core import TensorData
from ...support.services import MIN_OWN_REGION_BYTES, Packer, unpack
from .round_trip import write_regions


class Transfer:
    """An element that has been packed and unpacked; tells which of its regions are still in use."""

    def __init__(self, element: object) -> None:
        packed = Packer().pack(element)
        memories = write_regions(packed)
        self._memories = [weakref.ref(memory) for memory in memories]
        self.element: Any = unpack(packed.stream, memories)

    @property
    def used(self) -> list[bool]:
        return [memory() is not None for memory in self._memories]

    @property
    def in_use(self) -> bool:
        return any(self.used)


def test_a_region_ends_with_the_last_array() -> None:
    transfer = Transfer({"x": np.arange(10), "y": np.arange(10.0), "n": 3})
    x, y = transfer.element.pop("x"), transfer.element.pop("y")
    del transfer.element
    assert transfer.in_use
    view = x[2:5].reshape(3, 1)
    del x
    assert transfer.in_use
    del y
    assert transfer.in_use
    view[0] = 7
    del view
    assert not transfer.in_use


def test_a_region_ends_with_the_last_tensor() -> None:
    transfer = Transfer([torch.arange(10.0), torch.ones(3, dtype=torch.bfloat16), TensorData(np.ones(3))])
    a, b, c = transfer.element
    del transfer.element
    view, other = a[2:].view(2, 4).t(), c.numpy()
    del a, c
    assert transfer.in_use
    del b
    assert transfer.in_use
    view.add_(1)
    del view
    assert transfer.in_use and other.tolist() == [1, 1, 1]
    del other
    assert not transfer.in_use


def test_a_region_ends_with_the_last_of_arrow() -> None:
    transfer = Transfer([pa.table({"a": [1, 2, 3]}), Rows({"t": pa.array(["x", "y"]), "n": np.arange(2)})])
    table, rows = transfer.element
    del transfer.element
    column = table["a"].chunk(0)[1:]
    numbers = column.to_numpy()
    del table, column
    assert transfer.in_use
    text = rows.columns["t"]
    del rows
    assert transfer.in_use and numbers.tolist() == [2, 3]
    del numbers
    assert transfer.in_use and text.to_pylist() == ["x", "y"]
    del text
    assert not transfer.in_use


def test_large_parts_have_regions_of_their_own() -> None:
    image, table = np.zeros(MIN_OWN_REGION_BYTES, np.uint8), pa.table({"a": range(MIN_OWN_REGION_BYTES // 8)})
    transfer = Transfer({"n": np.arange(3), "image": image, "m": torch.ones(3), "table": table, "turned": image[::-1]})
    assert transfer.used == [True] * 4
    kept = transfer.element.pop("m")
    image = transfer.element.pop("image")
    del transfer.element
    assert transfer.used == [True, True, False, False]
    del image
    assert transfer.used == [True, False, False, False] and kept.tolist() == [1, 1, 1]
