"""NumPy arrays arrive with their dtype, shape and order of axes."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

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
