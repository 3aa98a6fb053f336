"""Digests: the same for equal values however they are stored, and the same for ever."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from feedpipe.extensions import Rows

from ..support.core import digest
from ..support.operators import digest_of, digests_of_column


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


def test_digests_in_fingerprints_never_change() -> None:
    """They are in the states of running projects."""
    assert digest({"a": [1, 2.5, None]}) == "#fe857ee1a440"
