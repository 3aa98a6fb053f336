"""`profile`: what is in columns, and what looks wrong, however the rows are divided."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, RowError

from ..support.fitting import profile as profiling
from ..support.stats import Cardinality


def dirty(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": [*range(rows - 3), 0, 1, 1],
            "same": ["x"] * rows,
            "empty": pa.nulls(rows),
            "length": [1e9, *rng.normal(size=rows - 2), float("inf")],
            "price": [f"{n / 7:.2f}" for n in range(rows - 1)] + ["n/a"],
            "city": [[" Rome", "rome", "Oslo", None][n % 4] for n in range(rows)],
            "rare": [None] * (rows - 2) + [1, 2],
            "day": [datetime.date(2024, 1, 1 + n % 9) for n in range(rows)],
            "cost": [Decimal(n) / 4 for n in range(rows)],
            "tags": [["a"]] * rows,
        }
    )


REMARKS = {
    "id": ["it seems to identify rows, but 3 repeat a value, such as 1, which comes 3 times"],
    "same": ["it is constant: 'x'"],
    "empty": ["it has no value"],
    "length": ["it has infinite numbers: 1", "it has outliers, such as 1e+09; half of the numbers lie from "],
    "price": ["99.8% of the text is numbers, and others are such as 'n/a'"],
    "city": ["some values differ in case or white space alone: ' Rome', 'rome'"],
    "rare": ["99.5% of the values are missing"],
    "day": [],
    "cost": [],
    "tags": [],
}


@pytest.mark.parametrize("stored", ["columns", "dicts"])
@pytest.mark.parametrize("chunk", [1000, 7])
def test_what_looks_wrong(stored: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "CHUNK_ROWS", chunk)
    table = dirty()
    pipe: fp.Pipe[Any] = fp.from_table(table) if stored == "columns" else fp.from_sequence(table.to_pylist())
    profile = fp.profile(pipe)
    assert list(profile) == table.schema.names and profile.rows == 400
    for name, remarks in REMARKS.items():
        found = profile[name].remarks
        assert len(found) == len(remarks), (name, found)
        assert all(text.startswith(start) for text, start in zip(found, remarks, strict=True)), (name, found)
    numbers = profile["length"]
    finite = np.array(table["length"].to_pylist()[:-1])
    assert (numbers.min, numbers.max) == (finite.min(), 1e9) and numbers.quantiles[0.5] == np.median(finite)
    assert np.isclose(numbers.mean, finite.mean()) and np.isclose(numbers.std, finite.std())
    assert profile["city"].frequent == [(" Rome", 100), ("Oslo", 100), ("rome", 100)]
    assert profile["city"].missing == 100 and profile["city"].examples == [" Rome", "rome", "Oslo"]
    assert (profile["day"].min, profile["day"].max) == (datetime.date(2024, 1, 1), datetime.date(2024, 1, 9))
    assert profile["cost"].max == 99.75 and profile["tags"].distinct is None


def test_as_text_table_and_page(tmp_path: Path) -> None:
    profile = fp.profile(fp.from_table(dirty().append_column("<b>", pa.array(["<script>"] * 400))), rows=30)
    text = repr(profile).splitlines()
    assert text[0] == "30 rows" and text[1].split()[:3] == ["column", "type", "missing"]
    assert "  same: it is constant: 'x'" in text
    table = profile.table
    assert table["column"].to_pylist() == list(profile) and table["rows"].to_pylist() == [30] * 11
    profile.to_html(tmp_path / "profile.html")
    page = (tmp_path / "profile.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page and "30 rows, 11 columns" in page
    assert "://" not in page  # it loads nothing


def test_rows_that_lack_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "CHUNK_ROWS", 2)
    profile = fp.profile(fp.from_sequence([{"x": 1}, {"x": 2}, {"y": "a"}, {"x": "b"}, {"y": "c"}]))
    assert [(profile[name].rows, profile[name].missing) for name in "xy"] == [(5, 2), (5, 3)]
    assert profile["x"].remarks == ["it has values of several types: int64, string"]


def test_many_distinct_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("feedpipe.fitting.column_profile.MAX_DISTINCT", 50)
    monkeypatch.setattr(profiling, "CHUNK_ROWS", 10)
    profile = fp.profile(fp.from_table(dirty()))
    entry = profile["id"]
    distinct = entry.distinct
    assert distinct is not None and abs(distinct - 397) <= 8
    assert entry.too_many and entry.frequent == [] and entry.max == 396
    assert entry.remarks == [f"it has about {distinct} distinct values, so it was not checked for repeats"]
    assert f"  ~{distinct}  " in next(line for line in repr(profile).splitlines() if line.startswith("id"))
    profile.to_html(tmp_path / "profile.html")
    assert f"about {distinct} distinct" in (tmp_path / "profile.html").read_text()
    floats = fp.profile(fp.from_arrays({"x": np.arange(80.0)}))["x"]
    assert floats.too_many and floats.remarks == []


def test_errors() -> None:
    rows = fp.from_sequence([{"x": 1}])
    assert fp.profile(rows.repeat(), rows=3).rows == 3 and len(fp.profile(rows.skip(1))) == 0
    with pytest.raises(PlanError, match="`profile` must come to the end of the pipe"):
        fp.profile(rows.repeat())
    with pytest.raises(ArgumentError, match="`rows` must be >= 1 but got: 0"):
        fp.profile(rows, rows=0)
    with pytest.raises(ArgumentTypeError, match="`pipe` must be a Pipe but got"):
        fp.profile([{"x": 1}])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="`profile`"):
        fp.profile(fp.from_sequence([{"x": 1}, 2]))
    with pytest.raises(RowError, match="ZeroDivisionError"):
        fp.profile(rows.map(lambda row: {"x": 1 / 0}))


@pytest.mark.parametrize(
    "batched",
    [
        lambda pipe: pipe.batch(7),
        lambda pipe: pipe.map(dict).batch(7),
        lambda pipe: pipe.batch(7).collate(),
        lambda pipe: pipe.batch(7).map_columns(dict),
    ],
)
def test_the_rows_of_batches_are_those_of_the_pipe(batched: Any) -> None:
    pipe = fp.from_arrays({"x": np.arange(50), "image": np.zeros((50, 3, 4), np.float32)})
    single, whole = fp.profile(pipe), fp.profile(batched(pipe))
    assert whole.rows == 50 and list(whole) == ["x", "image"]
    assert (whole["x"].max, whole["x"].distinct, whole["x"].quantiles) == (49, 50, single["x"].quantiles)
    assert whole["image"].examples[0].shape == (3, 4)


def test_values_that_are_no_rows_are_one_column() -> None:
    assert fp.profile(fp.from_sequence([3, 1, 1]))["element"].frequent == [(1, 2), (3, 1)]
    pair = fp.profile(fp.from_sequence([("a", 1), ("b", 2)]))
    assert list(pair) == ["0", "1"] and pair["1"].max == 2
    images = fp.profile(fp.from_sequence([np.zeros((8, 8), np.uint8)] * 3))
    assert images["element"].examples[0].shape == (8, 8)


@pytest.mark.parametrize("count", [0, 1, 100, 5_000, 40_000, 300_000])
def test_the_number_of_distinct_values_is_estimated(count: int) -> None:
    numbers = pa.array(np.arange(count) * 7 - 3)
    for values in (numbers, numbers.cast(pa.float64()) if count else numbers, numbers.cast(pa.string())):
        if pa.types.is_string(values.type) and count > 50_000:
            continue  # hashing text takes long
        whole = Cardinality.of(values)
        assert abs(whole.estimate - count) <= 0.03 * count + 1
        halves = [Cardinality.of(values.slice(0, count // 2 + 5)), Cardinality.of(values.slice(count // 2))]
        assert (Cardinality.merged(halves).ranks == whole.ranks).all()


def test_remarks_on_text_and_copies() -> None:
    rows = 600
    table = pa.table(
        {
            "when": [f"2024-01-{1 + n % 28:02}" for n in range(rows)],
            "x": np.arange(rows),
            "copy": np.arange(rows),
            "note": ["" if n % 3 else "seen" for n in range(rows)],
            "label": np.where(np.arange(rows) == 7, 9, np.arange(rows) % 2),
            "kind": ["cat" if n % 2 else "dog" for n in range(rows - 1)] + ["bird"],
        }
    )
    profile = fp.profile(fp.from_table(table))
    assert {name: entry.remarks for name, entry in profile.items()} == {
        "when": ["dates are stored as text, such as '2024-01-01'"],
        "x": [],
        "copy": ["it has the values of the column 'x'"],
        "note": ["66.7% of the text is empty"],
        "label": ["it has rare labels: 9 comes 1 time in 600 rows"],
        "kind": ["it has rare labels: 'bird' comes 1 time in 600 rows"],
    }
    lengths = profile["when"].lengths
    assert lengths is not None and lengths.bounds == (10, 10)


def test_a_notebook_shows_the_page_without_script() -> None:
    profile = fp.profile(fp.from_arrays({"x": np.arange(500.0), "image": np.full((500, 16, 16), 9, np.uint8)}))
    shown = profile._repr_html_()
    assert "<script" not in shown and shown.count("<section") == 2
    assert shown.count("<rect") == 30 and shown.count("<img") == 3


@pytest.mark.parametrize("kind", ["s", "us", "ns"])
def test_times_have_a_histogram_of_seconds(kind: str) -> None:
    seconds = pa.array([*range(0, 3_600_000, 3600), None], pa.int64())
    column = seconds.cast(pa.timestamp("s")).cast(pa.timestamp(kind)).cast(pa.timestamp(kind, "Europe/Rome"))
    profile = fp.profile(fp.from_table(pa.table({"x": column, "number": range(1001)})), progress=False)
    sketch = profile["x"].sketch
    assert sketch is not None
    assert (sketch.count, sketch.bounds) == (1000, (0.0, 999 * 3600.0))
    assert profile["x"].mean is None
