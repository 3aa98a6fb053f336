"""Digests: the same for equal values however they are stored, and the same for ever."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.errors import UnfitError
from feedpipe.extensions import Rows

from ..support.core import digest
from ..support.operators import digest_of, digests_of_column, digests_of_records, digests_of_values

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.booleans()
scalars = st.none() | numbers | st.text() | st.binary()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def test_they_never_change() -> None:
    """Another digest would move rows of running projects to another part."""
    expected = {
        0: 16294208416658607535,
        -1: 0,
        2**64: 1331783653683805064,
        0.5: 8006158679917050249,
        None: 2428219950508312093,
        "": 17909611376780542444,
        "straße": 2681150327522534582,
        b"\x00\xff": 4025052718512733378,
        (1, "a"): 1548421908631066440,
        datetime.datetime(2026, 1, 2, 3, 4): 3872745950233588064,
        decimal.Decimal("1.50"): 3268946354111460076,
        uuid.UUID(int=7): 15663761908287763301,
    }
    assert {value: digest_of(value) for value in expected} == expected
    assert digest_of({"b": [1.5], "a": None}) == 6140454704019127647
    assert digest_of(np.arange(3, dtype=">i4")) == 6440110335893098240


@given(st.lists(values, max_size=8))
def test_lists_of_values(rows: list[Any]) -> None:
    assert digests_of_values(rows).tolist() == [digest_of(row) for row in rows]


@given(st.lists(st.fixed_dictionaries({"a": scalars, "b": st.text()}), min_size=1, max_size=5))
def test_dicts_of_the_same_names(rows: list[Any]) -> None:
    assert digests_of_values(rows).tolist() == [digest_of(row) for row in rows]
    columns = {name: digests_of_values([row[name] for row in rows]) for name in ("b", "a")}
    assert digests_of_records(columns, len(rows)).tolist() == [digest_of(row) for row in rows]


@given(st.integers(-(2**53), 2**53), st.booleans())
def test_equal_numbers(number: int, truth: bool) -> None:
    assert digest_of(number) == digest_of(float(number)) == digest_of(np.int64(number)) == digest_of(np.float64(number))
    assert digest_of(truth) == digest_of(int(truth)) == digest_of(np.bool_(truth))


COLUMNS: list[Any] = [
    np.array([3, -1, 0], np.int16),
    np.array([2**64 - 1, 5], np.uint64),
    np.array([0.5, -0.0, np.nan, np.inf, 1e300, -(2.0**63)]),
    np.array([0.1, 7], np.float32),
    np.array([True, False]),
    np.array([[1, 2], [3, 4]]),
    np.array(["a", "ß"]),
    np.array(["2026-01-02", "1999-12-31"], "datetime64[s]"),
    pa.array([1, None, 3], pa.int8()),
    pa.array([0.5, None], pa.float32()),
    pa.array([True, None, False]),
    pa.array(["a", None, ""]),
    pa.array(["a", None, ""], pa.large_string())[1:],
    pa.array([b"a", None]),
    pa.array(["a", "b", None, "a"]).dictionary_encode(),
    pa.array([[1, 2], None, []]),
    pa.array([{"x": 1, "y": "a"}, None]),
    pa.array([datetime.datetime(2026, 1, 2), None], pa.timestamp("us")),
    pa.array([datetime.date(2026, 1, 2), None]),
    pa.array([decimal.Decimal("1.50"), None]),
    pa.array([None, None]),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(getattr(column, "dtype", None) or column.type))
def test_columns(column: Any) -> None:
    rows: Any = list(Rows({"x": column}))
    assert digests_of_column(column).tolist() == [digest_of(row["x"]) for row in rows]


def test_a_batch_counts_as_a_list_of_its_rows() -> None:
    batch = Rows({"x": np.arange(2), "y": np.zeros(2)})
    assert digest_of(batch) == digest_of(list(batch)) == digest_of([{"y": 0.0, "x": 0}, {"y": 0.0, "x": 1}])


def test_arrays_count_by_shape_type_and_values() -> None:
    array = np.arange(6, dtype=np.int32)
    others = [array.reshape(2, 3), array.astype(np.int64), array + 1, array[::-1]]
    assert len({digest_of(array), *map(digest_of, others)}) == 5
    assert digest_of(array) == digest_of(array.astype(">i4")) == digest_of(np.repeat(array, 2)[::2])
    assert digest_of(torch.from_numpy(array)) == digest_of(array)
    assert digest_of(np.array(3)) == digest_of(3)


def test_they_are_spread_evenly() -> None:
    """Of neighbouring keys, each bit of the digests is set in half."""
    for keys in (range(20_000), [f"user-{k}" for k in range(20_000)], [k / 8 for k in range(20_000)]):
        digests = digests_of_values(list(keys))
        bits = np.unpackbits(digests.view(np.uint8).reshape(-1, 8), axis=1)
        assert np.abs(bits.mean(0) - 0.5).max() < 0.02
        assert np.abs(np.corrcoef(bits.T) - np.eye(64)).max() < 0.04


def test_what_has_none() -> None:
    for value in (object(), {1, 2}, 1j, [lambda: None]):
        with pytest.raises(UnfitError, match="has no digest that is the same in each process"):
            digest_of(value)


def test_digests_in_fingerprints_never_change() -> None:
    """They are in the states of running projects."""
    assert digest({"a": [1, 2.5, None]}) == "#fe857ee1a440"
