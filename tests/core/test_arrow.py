"""`arrow_array` and `numpy_array` against `pa.array` and `to_numpy`, which import pandas."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from ..support.core import arrow_array, arrow_scalar, numpy_array

DTYPES = [
    "?",
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "f2",
    "f4",
    "f8",
    "M8[D]",
    "M8[ms]",
    "m8[ns]",
    "U3",
    "S3",
    "O",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1, 3, -1])
def test_an_array_of_numpy(dtype: str, step: int) -> None:
    values = np.arange(20).astype(dtype)[::step]
    array = arrow_array(values)
    array.validate(full=True)
    assert array.equals(pa.array(values))
    missing = values == values[0]
    array = arrow_array(values, missing=missing)
    array.validate(full=True)
    assert array.equals(pa.array(values, mask=missing))
    assert arrow_array(values[:0]).equals(pa.array(values[:0]))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], None),
        ([None, None], None),
        ([None], pa.large_string()),
        ([1, None, -3], None),
        ([1, 2], pa.int8()),
        ([2**63], pa.uint64()),
        ([1.5, None], None),
        ([1.5], pa.float32()),
        ([True, None, False], None),
        (["a", "é", None, ""], None),
        (("a", "b\0"), pa.large_string()),
        ([b"a\0", None], None),
        ([b"ab"], pa.binary(2)),
        ([1, 2.5], None),
        ([1], pa.float64()),
        (["a"], pa.dictionary(pa.int8(), pa.string())),
        ([datetime.date(2020, 1, 1), None], None),
        ([[1], None, [2, 3]], None),
        ([{"a": 1}], None),
        (range(3), None),
    ],
)
def test_an_array_of_python_values(values: list[object], kind: pa.DataType | None) -> None:
    array = arrow_array(values, kind)
    array.validate(full=True)
    assert array.equals(pa.array(values, kind))
    assert all(arrow_scalar(value, array.type).equals(array[place]) for place, value in enumerate(values))


@pytest.mark.parametrize("dtype", ["i4", "M8[s]", "O"])
def test_a_masked_array(dtype: str) -> None:
    values = np.ma.array(np.arange(3).astype(dtype), mask=[True, False, False])
    assert arrow_array(values).equals(pa.array(values))


def test_an_array_of_arrow_scalars() -> None:
    values = [pa.scalar(3, pa.int16()), pa.scalar(None, pa.int16())]
    assert arrow_array(values).equals(pa.array([3, None], pa.int16()))
    assert arrow_array(values, pa.int64()).equals(pa.array([3, None]))


@pytest.mark.parametrize(
    ("values", "kind"), [([300], pa.int8()), (["a"], pa.int64()), ([2**70], None), (["\udc80"], None)]
)
def test_what_does_not_fit_is_refused(values: list[object], kind: pa.DataType | None) -> None:
    with pytest.raises((pa.ArrowException, OverflowError, UnicodeEncodeError)) as caught:
        arrow_array(values, kind)
    with pytest.raises(type(caught.value)):
        pa.array(values, kind)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("M8[Y]", pa.date32()),
        ("M8[M]", pa.date32()),
        ("M8[W]", pa.date32()),
        ("M8[h]", pa.timestamp("s")),
        ("M8[m]", pa.timestamp("s")),
        ("M8[10s]", pa.timestamp("s")),
        ("m8[D]", pa.duration("s")),
        ("m8[h]", pa.duration("s")),
        (">i4", pa.int32()),
    ],
)
def test_an_array_that_pyarrow_refuses_or_misreads(dtype: str, kind: pa.DataType) -> None:
    values = np.arange(5).astype(dtype)
    array = arrow_array(values)
    assert array.type == kind
    assert (numpy_array(array) == values).all()


@pytest.mark.parametrize("dtype", [*DTYPES[:12], "M8[ms]", "U3"])
def test_an_array_of_arrow(dtype: str) -> None:
    for missing in (None, np.arange(20) % 3 == 0):
        array = pa.array(np.arange(20).astype(dtype), mask=missing)
        for part in (array, array.slice(3, 9), array.slice(11), array[:0], pa.chunked_array([array, array.slice(5)])):
            expected = part.to_numpy() if isinstance(part, pa.ChunkedArray) else part.to_numpy(zero_copy_only=False)
            values = numpy_array(part)
            np.testing.assert_array_equal(values, expected)
            assert values.dtype == expected.dtype or not len(part) or dtype in "f2"
