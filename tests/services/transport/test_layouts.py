"""Elements that look alike are pickled once, and arrive as if each were pickled."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ...support.core import Stack, TensorData
from ...support.services import MAX_LAYOUTS, LayoutCache, Packer, unpack
from ...support.services import packing as layouts


def sent(packer: Packer, element: Any) -> tuple[Any, bytes]:
    """The element as it arrives, and its stream."""
    packed = packer.pack(element)
    return unpack(packed.stream, [bytearray(region.content()) for region in packed.regions]), packed.stream


def has_layout(element: Any) -> bool:
    return LayoutCache().pack(element) is not None


def values(draw: st.DrawFn) -> Any:
    shape = draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    dtype = draw(st.sampled_from(["f4", "f8", "i8", "u1", "?", "c8", ">f4", "M8[s]"]))
    array = np.arange(int(np.prod(shape, dtype=int))).astype("i8").astype(dtype).reshape(shape)
    kind = draw(st.sampled_from(["array", "transposed", "tensor", "leaf", "data", "stack", "label"]))
    if kind == "label":
        return 3
    if kind in ("tensor", "leaf") and dtype[0] not in ">M":
        tensor = torch.from_numpy(array.copy())
        return tensor.requires_grad_() if kind == "leaf" and tensor.is_floating_point() else tensor
    if kind in ("data", "stack") and dtype != "M8[s]":
        return TensorData(array if kind == "data" else Stack([array, array]))
    return array.T if kind == "transposed" else array


@st.composite
def elements(draw: st.DrawFn) -> Any:
    count = draw(st.integers(0, 4))
    leaves = [values(draw) for _ in range(count)]
    if count > 1 and draw(st.booleans()):
        leaves[-1] = leaves[0]
    kind = draw(st.sampled_from(["dict", "numbered", "list", "tuple", "one", "ordered"]))
    if kind == "dict":
        return {f"field{i}": leaf for i, leaf in enumerate(leaves)}
    if kind == "numbered":
        return dict(enumerate(leaves))
    if kind == "ordered":
        return OrderedDict(enumerate(leaves))
    if kind == "one":
        return leaves[0] if leaves else None
    return tuple(leaves) if kind == "tuple" else leaves


def described(element: Any) -> Any:
    """All that can be seen of what has arrived."""
    if isinstance(element, dict):
        numbers = {id(value): number for number, value in enumerate(element.values())}
        same = [numbers[id(value)] for value in element.values()]
        return type(element), [(type(key), key) for key in element], [*map(described, element.values())], same
    if isinstance(element, (list, tuple)):
        return type(element), described(dict(enumerate(element)))
    if isinstance(element, torch.Tensor):
        array = element.detach()
        more = element.requires_grad, element.stride(), element.untyped_storage().nbytes()
        return "tensor", element.dtype, element.shape, more, array.tolist()
    if isinstance(element, np.ndarray):
        return "array", element.dtype, element.shape, element.strides, element.flags.writeable, repr(element.tolist())
    return element


@given(elements())
def test_what_arrives_does_not_depend_on_layouts(element: Any) -> None:
    packer, pickler = Packer(), Packer()
    pickler._layouts._misses_left = 0
    expected, _ = sent(pickler, element)
    for _ in range(3):
        arrived, _ = sent(packer, element)
        assert described(arrived) == described(expected)


@pytest.mark.parametrize(
    "element",
    [
        {"x": np.zeros(3), "y": torch.zeros(2, 2)},
        [np.zeros(3), np.zeros(1)],
        (torch.zeros(()),),
        np.zeros((2, 3)),
        {"x": TensorData(np.zeros(4, "f4"))},
    ],
)
def test_elements_that_look_alike_share_a_stream(element: Any) -> None:
    packer = Packer()
    _, stream = sent(packer, element)
    other = pickle.loads(pickle.dumps(element))
    assert sent(packer, other)[1] is stream


def test_each_element_has_bytes_of_its_own() -> None:
    packer = Packer()
    arrived = [sent(packer, {"x": np.full(5, n), "y": torch.full((2,), n)})[0] for n in range(4)]
    arrived[1]["x"][:] = 7
    assert [element["x"].tolist() for element in arrived] == [[0] * 5, [7] * 5, [2] * 5, [3] * 5]
    assert [element["y"].tolist() for element in arrived] == [[n] * 2 for n in range(4)]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("shape", np.zeros((2, 3)), np.zeros((3, 2))),
        ("dtype", np.zeros(3, "i4"), np.zeros(3, "f4")),
        ("kind", np.zeros(3), torch.zeros(3, dtype=torch.float64)),
        ("key", {"x": np.zeros(3)}, {"y": np.zeros(3)}),
        ("order", {"x": np.zeros(3), "y": np.ones(3)}, {"y": np.zeros(3), "x": np.ones(3)}),
        ("container", [np.zeros(3)], (np.zeros(3),)),
        ("type of a key", {"x": np.zeros(3)}, {np.str_("x"): np.zeros(3)}),
    ],
)
def test_what_differs_shares_no_stream(name: str, one: Any, other: Any) -> None:
    packer = Packer()
    streams = {sent(packer, element)[1] for element in (one, other, one, other)}
    assert len(streams) == 2
    assert described(sent(packer, other)[0]) == described(sent(Packer(), other)[0])


class Named(np.ndarray):
    pass


def labelled() -> torch.Tensor:
    tensor = torch.zeros(2)
    tensor.label = 3  # type: ignore[attr-defined]
    return tensor


UNUSUAL = {
    "empty": {},
    "number key": {1: np.zeros(3)},
    "label": {"x": np.zeros(3), "label": 3},
    "nested": {"x": {"y": np.zeros(3)}},
    "one array twice": [np.zeros(3)] * 2,
    "transposed": np.zeros((2, 3)).T,
    "gaps": np.zeros(6)[::2],
    "byte order": np.zeros(3, ">f4"),
    "dates": np.zeros(3, "M8[s]"),
    "objects": np.array([None]),
    "subclass": np.zeros(3).view(Named),
    "masked": np.ma.MaskedArray([1, 2], [True, False]),
    "leaf of autograd": torch.zeros(2, requires_grad=True),
    "bfloat16": torch.zeros(2, dtype=torch.bfloat16),
    "transposed tensor": torch.zeros(2, 3).T,
    "conjugate": torch.tensor([1j]).conj(),
    "sparse": torch.zeros(2).to_sparse(),
    "parameter": torch.nn.Parameter(torch.zeros(2)),
    "attribute": labelled(),
    "stack": TensorData(Stack([np.zeros(3)])),
    "no bytes": np.zeros(0),
    "some without bytes": [np.zeros(0), np.zeros(3)],
    "large": np.zeros(layouts.MAX_LAYOUT_BYTES + 1, "u1"),
}


@pytest.mark.parametrize("element", UNUSUAL.values(), ids=UNUSUAL)
def test_everything_unusual_is_pickled(element: Any) -> None:
    assert not has_layout(element)


def test_elements_that_never_look_alike_are_left_to_the_pickler() -> None:
    cache = LayoutCache()
    for size in range(1, MAX_LAYOUTS + 1):
        assert cache.pack(np.zeros(size)) is not None
    assert cache.pack(np.zeros(1)) is None


def test_a_rare_shape_does_not_end_the_layouts_of_the_others() -> None:
    cache = LayoutCache()
    for size in range(2, 5 * MAX_LAYOUTS):
        assert cache.pack(np.zeros(1)) is not None
        cache.pack(np.zeros(size))
    assert len(cache._streams) <= MAX_LAYOUTS
