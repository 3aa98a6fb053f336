"""One rule for keys: every operator that compares them agrees with it, for rows that are objects and for columns."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import feedpipe as fp

OBJECTS: list[Any] = [
    *(None, 0, 1, 2, True, False, 1.0, -0.0, 0.5, math.nan, float("nan"), np.float32("nan"), Decimal("nan")),
    *(2**63 - 1, 2**63, -(2**63), 2.0**63, 2**64, 1e300, math.inf, -math.inf, 1071644674),  # the bits of 0.5, and 2
    *("", "1", "nan", b"", b"1", "é", np.str_("1"), np.int64(1), np.float32(0.5), np.bool_(True)),
    *(Decimal(1), Decimal("1.0"), Decimal("0.5"), Decimal("0.1"), Decimal("0.10"), 0.1, Decimal(2**64)),
    *(dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), np.datetime64("2020-01-01"), np.datetime64("2020-01-01", "ns")),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    *(dt.timedelta(seconds=1), np.timedelta64(1, "s"), dt.time(1), (1, None), (1.0, None), (True, math.nan), ()),
]
SMALL = st.integers(0, 3)
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 0.5, math.nan, math.inf, 2.0**63])
DAYS = st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 3))
TIMES = st.sampled_from([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 1)])
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), SMALL),
    (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    (pa.int64(), st.sampled_from([0, 1, -1, -(2**63)])),
    (pa.float64(), FLOATS),
    (pa.float32(), FLOATS),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.sampled_from(["", "1", "a"])),
    (pa.binary(), st.sampled_from([b"", b"1"])),
    (pa.decimal128(5, 2), st.sampled_from([Decimal("1.00"), Decimal("0.10")])),
    (pa.date32(), DAYS),
    (pa.timestamp("us"), TIMES),
    (pa.timestamp("ns"), TIMES),
    (pa.timestamp("us", "UTC"), TIMES.map(lambda time: time.replace(tzinfo=dt.UTC))),
    (pa.duration("ns"), st.sampled_from([dt.timedelta(0), dt.timedelta(seconds=1)])),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["", "a", "b"])),
]


@st.composite
def columns(draw: st.DrawFn, *, nulls: bool = True) -> pa.Array[Any]:
    kind, values = draw(st.sampled_from(COLUMNS))
    return pa.array(draw(st.lists(st.none() | values if nulls else values, min_size=1, max_size=9)), kind)


NAN = "the key of NaN"


def canonical(key: Any) -> Hashable:
    """The rule: Python's equality, but that NaN is one key, and NumPy's scalars are Python's."""
    if isinstance(key, (np.datetime64, np.timedelta64)) and np.datetime_data(key.dtype)[0] == "ns":
        key = key.astype(f"{key.dtype.kind}8[us]")
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, tuple):
        return tuple(map(canonical, key))
    return NAN if isinstance(key, (float, Decimal)) and math.isnan(key) else key


def is_missing(key: Hashable) -> bool:
    return key is None or key == NAN or (isinstance(key, tuple) and any(map(is_missing, key)))


def check(rows: fp.Pipe[Any], keys: list[Hashable]) -> None:
    """Compare the operators on rows with the columns `k`, the key, and `n`, the number of the row."""
    places: dict[Hashable, list[int]] = {}
    for n, key in enumerate(keys):
        places.setdefault(key, []).append(n)
    groups = list(places.values())
    firsts = [group[0] for group in groups]

    for key in ("k", ["k"], lambda row: row["k"], lambda row: (row["k"], 0)):
        assert [row["n"] for row in rows.distinct(key)] == firsts
        assert [row["n"] for row in rows.distinct(key, last=99)] == firsts
        assert [[row["n"] for row in group] for group in rows.group_by(key)] == groups
        windows = [[row["n"] for row in window] for window in rows.sliding(1, key=key)]
        assert sorted(windows) == [[n] for n in range(len(keys))]
        for pair in rows.sliding(2, key=key):
            (group,) = [group for group in groups if pair[0]["n"] in group]
            assert group.index(pair[1]["n"]) == group.index(pair[0]["n"]) + 1
        parts = rows.split({"a": 0.5, "b": 0.5}, key=key).values()
        if len(groups) > 1:
            parts = [*parts, *rows.split(2, key=key).values()]
        for part in parts:
            given_rows = {row["n"] for row in part}
            assert all(given_rows.issuperset(group) or given_rows.isdisjoint(group) for group in groups)
        pairs = list(rows.zip_by_key(rows, key=key, window=99))
        assert [(a["n"], b["n"]) for a, b in pairs] == [(n, n) for n in range(len(keys))]

    whole = rows.map(lambda row: {"k": row["k"]})
    assert len(list(whole.distinct())) == len(list(whole.distinct(last=99))) == len(groups)

    # For some NumPy, `timedelta64(1, "s") == 1`, so a dict would have one of them.
    once = {key.item() if isinstance(key := row["k"], np.timedelta64) else key: 1 for row in rows.distinct("k")}
    assert [row["n"] for row in rows.resample("k", target=once, source=once)] == list(range(len(keys)))

    joined = [(row["n"], row["n_right"]) for row in rows.join(rows, on="k", multiple="all")]
    assert joined == [(n, other) for n, key in enumerate(keys) if not is_missing(key) for other in places[key]]


@pytest.mark.slow
@given(st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=9))
def test_objects(keys: list[Any]) -> None:
    rows = fp.from_sequence([{"k": key, "n": n} for n, key in enumerate(keys)])
    check(rows, list(map(canonical, keys)))


@pytest.mark.slow
@given(columns())
def test_columns(column: pa.Array[Any]) -> None:
    keys = list(map(canonical, column.to_pylist()))
    table = pa.table({"k": column, "n": range(len(column))})
    check(fp.from_table(table), keys)
    check(fp.from_sequence(table.to_pylist()), keys)


@given(columns(nulls=False))
def test_statistics_and_indices(column: pa.Array[Any]) -> None:
    values = column.to_pylist()
    expected = Counter(value for value in values if canonical(value) != NAN)
    known = list(expected)
    assume(known)
    is_counted = isinstance(known[0], (str, float)) or (isinstance(known[0], int) and max(known) < 2**63)
    for rows in (fp.from_table(pa.table({"k": column})), fp.from_sequence([{"k": value} for value in values])):
        if is_counted:
            assert dict(fp.fit(rows, {"k": fp.stats.counts()})["k"]) == expected
        numbers = [known.index(value) if value in expected else -1 for value in values]
        assert [row["k"] for row in rows.index_of("k", values=known)] == numbers
