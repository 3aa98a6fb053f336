"""Elements of any kind arrive as they were packed, or an error names the part that cannot travel."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import pickle
import threading
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from feedpipe.errors import CallSite, DataError

from ...support.services import Packer
from .round_trip import round_trip


def test_an_object_that_is_there_twice_arrives_as_one() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    a, b, (c, d), e = round_trip([array, array, (tensor, {"x": tensor}), array[:2]])
    assert a is b and c is d["x"] and a is not e


@dataclasses.dataclass
class Sample:
    image: torch.Tensor
    label: int
    more: Any = None


Pair = namedtuple("Pair", "a b")


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Color(enum.Enum):
    RED = 1


def test_tensors_inside_other_things() -> None:
    x = torch.arange(3)
    sample, pair, mapping, plain = round_trip(
        [Sample(x, 1, [x + 1]), Pair(x, (x + 2,)), OrderedDict(x=x), Plain(x=[Sample(x + 3, 2)])]
    )
    assert sample.image.tolist() == [0, 1, 2] and sample.more[0].tolist() == [1, 2, 3]
    assert type(pair) is Pair and pair.b[0].tolist() == [2, 3, 4] and pair.a is sample.image is mapping["x"]
    assert plain.x[0].image.tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    "element",
    [
        None,
        5,
        {"a": {1, 2}, "b": (1.5, None, ..., 1 + 2j)},
        pathlib.PurePosixPath("/a/b"),
        range(3),
        b"\0" * 1_000_000,
        bytearray(b"\1" * 1_000_000),
        "ä" * 200_000,
        [b"\0" * 70_000, {"x": list(range(100_000))}, b""],
        slice(1, 2),
        np.dtype("f4"),
        torch.float32,
        torch.Size([1, 2]),
        pa.schema([("a", pa.int64())]),
        pa.scalar(5),
        [{"x": pa.MonthDayNano([1, -2, 3])}, pa.MonthDayNano([0, 0, 2**40])],
        ValueError("no"),
    ],
    ids=lambda element: type(element).__name__,
)
def test_objects_that_pickle_supports(element: Any) -> None:
    arrived = round_trip(element)
    assert type(arrived) is type(element)
    assert arrived == element or repr(arrived) == repr(element)


class Buffered:
    """Pickles itself as pandas does, with a buffer that may be out of the stream."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Buffered, (pickle.PickleBuffer(self.buffer),)


@pytest.mark.parametrize("size", [3, 300_000])
def test_buffers_of_other_libraries(size: int) -> None:
    writable, fixed, big = round_trip([Buffered(bytearray(size)), Buffered(bytes(size)), np.zeros(size)])
    assert type(writable.buffer) is bytearray and len(writable.buffer) == size
    assert type(fixed.buffer) is bytes and len(fixed.buffer) == size
    assert len(big) == size
    fortran = round_trip(Buffered(np.asfortranarray(np.arange(size * 2.0).reshape(2, size))))
    assert np.frombuffer(fortran.buffer).tolist()[:4] == [0.0, size, 1.0, size + 1]


def test_elements_that_were_packed_fast_can_be_packed_by_value() -> None:
    packer, words = Packer(), pa.array(["a", "b", None, "c"])[:3]
    elements = [
        {"x": torch.ones(3)},
        lambda: 1,
        {"x": torch.ones(3), "c": Color.RED, "p": Pair(1, 2)},
        words,
    ]
    first, function, second, text = [round_trip(element, packer) for element in elements]
    assert function() == 1 and torch.equal(first["x"], second["x"])
    assert second["c"] is Color.RED and type(second["p"]) is Pair and text.equals(words)


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (
            {"x": [Plain(lock=threading.Lock())]},
            r"`element\['x'\]\[0\].lock`, a _thread.lock, .*keep such things out",
        ),
        (Sample(torch.ones(1), 0, (1, threading.Lock())), r"`element.more\[1\]`, an? _thread.lock,"),
        (
            Pair(1, {2: (n for n in "a")}),
            r"`element.b\[2\]`, an? generator, .*cannot pickle 'generator' object\); return a list of what it",
        ),
        (threading.Lock(), "`element`, a _thread.lock, "),
    ],
    ids=["deep", "dataclass", "namedtuple", "itself"],
)
def test_objects_that_cannot_be_packed(element: Any, words: str) -> None:
    packer = Packer()
    with pytest.raises(DataError, match=f"cannot leave its worker: {words}") as caught:
        packer.pack(element)
    assert isinstance(caught.value.__cause__, TypeError)
    assert round_trip([1, np.arange(3)], packer)[1].tolist() == [0, 1, 2]


class Refusing:
    def __reduce__(self) -> Any:
        raise ValueError


def test_an_error_of_the_users_own(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match=r"`element\[1\]`, an? .*Refusing, cannot be packed \(ValueError\)") as caught:
        Packer().pack([1, Refusing()])
    assert type(caught.value.__cause__) is ValueError
    (tmp_path / "a").touch()
    with (
        open(tmp_path / "a") as file,
        pytest.raises(
            DataError, match=r"`element\['file'\]`, an? _io.TextIOWrapper.*; return what is in the file"
        ) as caught,
    ):
        Packer(call_site=CallSite("train.py", 7)).pack({"file": file})
    assert str(caught.value).endswith("\n  at train.py:7")


def test_elements_that_are_nested_too_deeply() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DataError, match="cannot leave its worker") as caught:
        Packer().pack({"deep": deep})
    assert isinstance(caught.value.__cause__, (RecursionError, pickle.PicklingError))
