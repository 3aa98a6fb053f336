"""NumPy arrays arrive with their dtype, shape and order of axes."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feedpipe.errors import DataError

from ...support.core import Stack, TensorData
from ...support.services import ALIGNMENT
from .round_trip import round_trip

LAYOUTS = {
    "c": lambda a: a,
    "transposed": lambda a: a.T,
    "fortran": lambda a: np.asfortranarray(a),
    "every other": lambda a: a[::2] if a.ndim else a,
    "backwards": lambda a: a[..., ::-1] if a.ndim else a,
    "axes moved": lambda a: np.moveaxis(a, 0, -1) if a.ndim else a,
    "one row many times": lambda a: np.broadcast_to(a, (3, *a.shape)),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) if a.dtype.itemsize else a,
}
dtypes = st.one_of(hnp.scalar_dtypes(), hnp.array_dtypes(), hnp.nested_dtypes(max_itemsize=200))
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


@given(st.lists(st.tuples(arrays, st.sampled_from(sorted(LAYOUTS))), max_size=4))
def test_arrays_of_every_dtype_shape_and_layout(layouts: list[tuple[Any, str]]) -> None:
    sent = [LAYOUTS[layout](array) for array, layout in layouts]
    for array, arrived in zip(sent, round_trip(sent), strict=True):
        assert type(arrived) is np.ndarray
        assert arrived.dtype == array.dtype and arrived.shape == array.shape
        assert repr(arrived.tolist()) == repr(array.tolist())
        assert arrived.flags.writeable


@pytest.mark.parametrize("size", [1, 63, 64, 65, 40_000])
@pytest.mark.parametrize("dtype", ["f4", ">i2", "M8[ns]", "U5", "G", [("a", "i1"), ("b", "f8")]])
def test_arrays_small_and_big(size: int, dtype: Any) -> None:
    array = np.arange(2 * size).astype("i8").astype(dtype if isinstance(dtype, str) else "i1").astype(dtype)
    sent = {"whole": array, "every other": array[::2], "fortran": array.reshape(2, size).T, "one": array[3 % size]}
    arrived = round_trip(sent)
    for name, value in sent.items():
        assert arrived[name].dtype == value.dtype and arrived[name].shape == value.shape
        np.testing.assert_array_equal(arrived[name], value)


def test_each_array_is_aligned() -> None:
    arrived = round_trip([np.zeros(n, "u1") for n in range(1, 200)])
    assert all(array.ctypes.data % ALIGNMENT == 0 for array in arrived)


def test_the_order_of_axes_stays() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    arrived = round_trip([np.asfortranarray(array), array.transpose(0, 2, 1), array[:, :, ::2]])
    assert arrived[0].flags.f_contiguous
    assert arrived[1].transpose(0, 2, 1).flags.c_contiguous
    assert arrived[2].flags.c_contiguous


def test_arrays_of_objects() -> None:
    array = np.array([{"a": 1}, None, "x"], dtype=object)
    mixed = np.array([(1, "x")], [("n", "i4"), ("o", "O")])
    arrived = round_trip([array, mixed])
    assert arrived[0].tolist() == array.tolist() and arrived[1].tolist() == mixed.tolist()
    assert round_trip(np.array(["text", "of any length"], np.dtypes.StringDType())).tolist() == [
        "text",
        "of any length",
    ]


def test_kinds_of_arrays(tmp_path: pathlib.Path) -> None:
    masked = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    assert round_trip(masked).tolist() == [1, None, 3]
    records = np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])
    assert round_trip(records).a.tolist() == [1]
    np.save(tmp_path / "a.npy", np.arange(10))
    arrived = round_trip(np.load(tmp_path / "a.npy", mmap_mode="r")[2:5])
    assert type(arrived) is np.ndarray and arrived.tolist() == [2, 3, 4]
    assert round_trip(np.float32(1.5)) == np.float32(1.5)


def test_an_arrays_content_becomes_a_tensor() -> None:
    x = np.arange(6).reshape(2, 3)
    arrived = round_trip(
        [TensorData(x), TensorData(x.T), TensorData(x.astype(">f4")), TensorData(x[:0]), TensorData(x == 1)]
    )
    assert [tensor.tolist() for tensor in arrived] == [x.tolist(), x.T.tolist(), x.tolist(), [], (x == 1).tolist()]
    assert all(tensor.is_contiguous() for tensor in arrived)
    assert arrived[2].dtype is torch.float32 and arrived[3].shape == (0, 3) and arrived[4].dtype is torch.bool
    with pytest.raises(DataError, match=r"`element`, an? feedpipe\.core.*TensorData.*no dtype for datetime64"):
        round_trip(TensorData(np.array(["2020"], "M8[s]")))


@pytest.mark.parametrize("dtype", ["u1", ">f4", "c8", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4), (1000, 600)], ids=str)
@pytest.mark.parametrize("layout", ["c", "transposed", "backwards", "read-only"])
def test_arrays_to_be_stacked_become_one_tensor(dtype: str, shape: tuple[int, ...], layout: str) -> None:
    arrays = [LAYOUTS[layout](np.full(shape, n).astype(dtype)) for n in range(3)]
    first, arrived, last = round_trip([np.arange(5), TensorData(Stack(arrays)), torch.arange(3)])
    expected = np.stack(arrays)
    assert arrived.dtype == torch.from_numpy(expected.astype(expected.dtype.newbyteorder("="))).dtype
    assert arrived.is_contiguous() and arrived.shape == expected.shape
    np.testing.assert_array_equal(arrived.numpy(), expected)
    assert first.tolist() == [0, 1, 2, 3, 4] and last.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(np.asarray(Stack(arrays)), expected)
