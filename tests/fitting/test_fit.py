"""`fit`: exact however the rows are divided, on any service; what it refuses; how it goes on."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    PlanError,
)

from ..support.examples import examples
from ..support.fitting import ColumnSummaries, SummarizeRows
from ..support.fitting import fit as fitting

EVERYTHING = {
    "x": fp.stats.mean_std(),
    "y": fp.stats.min_max(),
    "city": fp.stats.vocabulary(min_count=2),
    "label": fp.stats.counts(),
    "z": fp.stats.quantiles([0.5]),
    "note": fp.stats.missing(),
}


def table(rows: int = 1000) -> pa.Table:
    rng = np.random.default_rng(0)
    x = rng.normal(1e6, 2, rows)
    return pa.table(
        {
            "x": pa.array(x, mask=rng.random(rows) < 0.1),
            "y": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)).astype("float32"),
            "city": [*(["Rome", "Oslo", None, "Lima"][n] for n in rng.integers(0, 4, rows - 1)), "Paris"],
            "label": rng.random(rows) < 0.2,
            "z": rng.integers(0, 1000, rows),
            "note": [None if n % 3 else [n] for n in range(rows)],
            "unused": [{"a": n} for n in range(rows)],
        }
    )


def check(stats: fp.Stats, data: pa.Table) -> None:
    frame = data.to_pandas()
    x, y = frame["x"], frame["y"].astype("float64")
    assert stats.rows == len(frame)
    assert math.isclose(stats["x"].mean, x.mean(), rel_tol=1e-13)
    assert math.isclose(stats["x"].std, x.std(ddof=0), rel_tol=1e-9)
    assert (stats["x"].rows, stats["x"].missing) == (len(frame), x.isna().sum())
    assert (stats["y"].min, stats["y"].max, stats["y"].missing) == (y.min(), y.max(), y.isna().sum())
    counts = Counter(frame["city"].dropna())
    assert dict(zip(stats["city"].values, stats["city"].counts, strict=True)) == {
        value: count for value, count in counts.items() if count > 1
    }
    assert list(stats["city"].counts) == sorted(stats["city"].counts, reverse=True)
    assert stats["city"].left_out == 1 and stats["city"].missing == frame["city"].isna().sum()
    assert dict(stats["label"]) == Counter(frame["label"].tolist())
    assert stats["z"][0.5] == np.median(frame["z"]) and stats["note"].missing == 666


@pytest.mark.parametrize("stored", ["columns", "streamed columns", "dicts"])
def test_all_statistics(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "CHUNK_ROWS_OF_TEXT", 64)
    monkeypatch.setattr(fitting, "CHUNK_ROWS_OF_DICTS", 64)
    pipe: fp.Pipe[Any] = fp.from_table(table())
    if stored == "dicts":
        pipe = fp.from_sequence(table().to_pylist())
    elif stored == "streamed columns":
        pipe = pipe.filter(lambda row: True)
    check(fp.fit(pipe, EVERYTHING), table())


@pytest.mark.parametrize("service", [fp.Threads(2), fp.MultiProcess(2)], ids=["threads", "processes"])
def test_on_a_service(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "CHUNK_ROWS_OF_TEXT", 64)
    pipe = fp.from_table(table()).filter(lambda row: True)
    check(fp.fit(pipe, EVERYTHING, service=service), table())


@pytest.mark.filterwarnings("ignore:.*divided row by row")  # of few files
def test_over_files_in_any_number_of_workers(tmp_path: Path) -> None:
    fp.write_parquet(fp.from_table(table().drop(["unused", "note"])), tmp_path, rows_per_file=300)
    statistics = {name: statistic for name, statistic in EVERYTHING.items() if name != "note"}
    alone = fp.fit(fp.read_parquet(tmp_path).shuffle(window=100), statistics)
    shared = fp.fit(fp.read_parquet(tmp_path).shuffle(window=100), statistics, workers=2)
    assert all(alone[name] == shared[name] for name in statistics)


@settings(max_examples=examples(40))
@given(st.lists(st.lists(st.integers(-(2**40), 2**40) | st.none(), max_size=9), min_size=1, max_size=9), st.randoms())
def test_summaries_of_parts_join_to_that_of_all(parts: list[list[int | None]], random: Any) -> None:
    """In any order, and through JSON, as they come from workers, ranks and files."""
    statistics = {"x": fp.stats.mean_std(), "n": fp.stats.counts(), "e": fp.stats.min_max(), "q": fp.stats.quantiles()}

    def summaries(groups: list[list[int | None]]) -> ColumnSummaries:
        joined = ColumnSummaries(statistics)
        for group in groups:
            values = pa.array(group, pa.int64())
            rows = fp.Rows.from_arrow(pa.record_batch([values] * 4, names=list(statistics)))
            joined.add(*SummarizeRows(statistics)(rows))
        return joined

    whole = summaries([[value for part in parts for value in part]])
    random.shuffle(parts)
    middle = len(parts) // 2
    divided = ColumnSummaries(statistics)
    for half in (parts[:middle], parts[middle:]):
        divided.add_json(json.loads(json.dumps(summaries(half).to_json())))
    if all(value is None for part in parts for value in part):
        with pytest.raises(DataError, match="column 'x' has no value"):
            divided.results()
        return
    expected, results = whole.results(), divided.results()
    assert all(results[name] == expected[name] for name in statistics)


def test_arrays_have_statistics_of_each_number() -> None:
    array = np.random.default_rng(0).normal(size=(100, 3)).astype("float32")
    pipe = fp.from_arrays({"x": array, "y": array})
    stats = fp.fit(pipe, {"x": fp.stats.mean_std(), "y": fp.stats.min_max()})
    assert np.allclose(stats["x"].mean, array.mean(axis=0)) and np.allclose(stats["x"].std, array.std(axis=0))
    batch = pipe.standardize(stats).scale(stats, low=-1).batch(100)[0]
    assert batch["x"].dtype == np.float32 and np.allclose(batch["x"].mean(axis=0), 0, atol=1e-6)
    assert np.allclose(stats["x"].inverse(batch["x"]), array, atol=1e-6)
    assert np.allclose(stats["y"].inverse(batch["y"], low=-1), array, atol=1e-6)
    tensors = pipe.standardize(stats).batch(100).collate()[0]
    assert np.allclose(stats["x"].inverse(tensors["x"]).numpy(), array, atol=1e-6)


def test_bad_values() -> None:
    mean = {"x": fp.stats.mean_std()}
    for values, message in (
        ([1.0, float("inf")], "column 'x' has an infinite value, inf; `.clip` bounds it(.|\n)*in the rows from "),
        (["a"], "column 'x' is of type string, and numbers are needed; `.cast` parses text"),
        ([None, None], "column 'x' has no value in 2 rows"),
        ([], "the pipe has no rows"),
    ):
        with pytest.raises(DataError, match=f"`fit`: {message}(.|\n)*test_fit.py"):
            fp.fit(fp.from_sequence([{"x": value} for value in values]), mean)
    with pytest.raises(DataError, match="`fit`: the pipe has no rows, so its columns have no statistics"):
        fp.fit(fp.from_table(pa.table({"x": [1]})).filter(lambda row: False).batch(1).unbatch(), mean)
    with pytest.raises(DataError, match="column 'x' has no value that occurs 2 times in 1 rows"):
        fp.fit(fp.from_sequence([{"x": 1}]), {"x": fp.stats.vocabulary(min_count=2)})
    with pytest.raises(DataError, match="column 'x' is of type date32.day., and values are counted that are text"):
        fp.fit(fp.from_table(pa.table({"x": pa.array([1], "date32")})), {"x": fp.stats.counts()})
    with pytest.raises(DataError, match="an element must be a row but is a batch of rows; `.unbatch"):
        fp.fit(fp.from_table(pa.table({"x": [1]})).batch(1), mean)
    with pytest.raises(DataError, match=r"there is no column 'x'; there are 'y'"):
        fp.fit(fp.from_sequence([{"y": 1}]), mean)


def test_arguments_are_refused() -> None:
    pipe = fp.from_table(table())
    for wrong in ({}, {"x": "mean"}, {"x": fp.stats.mean_std}, None, {1: fp.stats.mean_std()}):
        with pytest.raises(ArgumentTypeError, match="`statistics` must map names of columns to statistics, such as"):
            fp.fit(pipe, wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`pipe` must be a Pipe but got: "):
        fp.fit([1], {"x": fp.stats.mean_std()})  # type: ignore[arg-type]
    with pytest.raises(
        PlanError, match=r"`fit`: there is no column 'citty'; did you mean 'city'\?\n  at .*test_fit.py"
    ):
        fp.fit(pipe, {"citty": fp.stats.counts()})
    with pytest.raises(ArgumentError, match="`min_count` must be >= 1 but got: 0"):
        fp.stats.vocabulary(min_count=0)
