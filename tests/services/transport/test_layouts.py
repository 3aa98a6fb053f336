"""Elements that look alike are pickled once, and arrive as if each were pickled."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ...support.core import Stack, TensorData
from ...support.services import Packer, unpack


def sent(packer: Packer, element: Any) -> tuple[Any, bytes]:
    """The element as it arrives, and its stream."""
    packed = packer.pack(element)
    return unpack(packed.stream, [bytearray(region.content()) for region in packed.regions]), packed.stream


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
