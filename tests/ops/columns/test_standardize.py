"""`standardize`: with fitted statistics, and the warning if validation rows have a share in them."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, PlanWarning, StateWarning
from feedpipe.testing import check_operator

from ..tables import TABLE, variants

STATISTICS = {"id": fp.stats.mean_std(), "half": fp.stats.mean_std()}
STATS = fp.fit(fp.from_table(TABLE), {**STATISTICS, "text": fp.stats.vocabulary()})


@pytest.mark.parametrize("stored", variants())
def test_law(stored: str) -> None:
    pipe = variants()[stored]
    rows = check_operator(pipe.standardize(STATS), samples=5)
    expected = [(n - 3) / np.sqrt(2) for n in range(1, 6)]
    assert np.allclose([row["id"] for row in rows], expected) and np.allclose([row["half"] for row in rows], expected)
    assert [row["text"] for row in rows] == TABLE["text"].to_pylist()
    assert check_operator(pipe.skip(9).standardize(STATS, columns="id")) == []


def test_types_and_missing_values() -> None:
    table = pa.table({"x": pa.array([1, None, 3], "float32"), "same": [7, 7, None], "n": pa.array([0, 1, 2], "int8")})
    pipe = fp.from_table(table)
    stats = fp.fit(pipe, dict.fromkeys(table.schema.names, fp.stats.mean_std()))
    standardized = pipe.standardize(stats)
    assert [str(kind) for kind in standardized.schema.types] == ["float", "double", "double"]
    assert standardized.schema == standardized.batch(3)[0].arrow.schema
    assert [(row["x"], row["same"]) for row in standardized] == [(-1, 0), (None, 0), (1, None)]
    assert np.allclose(stats.inverse({"same": np.zeros(2)})["same"], 7)


def test_errors() -> None:
    pipe = fp.from_table(TABLE)
    with pytest.raises(ArgumentTypeError, match="`stats` must be a result of `fp.fit` but got: {'x': 1}"):
        pipe.standardize({"x": 1})  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"`stats` must have `fp.stats.mean_std\(\)` but has none of column 'text'"):
        pipe.standardize(STATS, columns=["id", "text"])
    with pytest.raises(ArgumentError, match="but has none of any column: Stats"):
        pipe.standardize(fp.fit(pipe, {"text": fp.stats.counts()}))
    with pytest.raises(PlanError, match="there is no column 'half'; there are 'id'"):
        pipe.select("id").standardize(STATS).explain()
    with pytest.raises(PlanError, match="column 'id' is of type string, and numbers are needed"):
        pipe.cast({"id": "string"}).standardize(STATS).explain()
    arrays = fp.from_arrays({"id": np.zeros((3, 2))})
    with pytest.raises(
        PlanError, match=r"column 'id' has arrays of shape \(2,\), and its statistics are of single num"
    ):
        arrays.standardize(STATS, columns="id").explain()
    with pytest.raises(DataError, match="column 'id' is of type string(.|\n)*row 1\n"):
        list(fp.from_sequence([{"id": "a", "half": 1}]).standardize(STATS))


def test_a_state_of_other_statistics_says_so() -> None:
    pipe = fp.from_table(TABLE)
    loader = fp.Loader(pipe.standardize(STATS).batch(2))
    next(iter(loader))
    others = fp.fit(pipe.take(3), STATISTICS)
    with pytest.warns(StateWarning, match="standardize"):
        fp.Loader(pipe.standardize(others).batch(2)).load_state_dict(loader.state_dict())
    fp.Loader(pipe.standardize(STATS).batch(2)).load_state_dict(loader.state_dict())


class TestLeakage:
    """Statistics of the rows before a `split`, after it."""

    @pytest.mark.parametrize("stored", variants())
    def test_warns(self, stored: str) -> None:
        pipe = variants()[stored]
        train, _ = pipe.split({"train": 0.6, "val": 0.4}).values()
        stats = fp.fit(pipe, STATISTICS)
        with pytest.warns(PlanWarning, match=r"the statistics are of the rows before `split\(.*leakage"):
            train.map(dict).standardize(stats).explain()

    @pytest.mark.parametrize("stored", variants())
    def test_is_silent_for_the_part_and_for_other_data(self, stored: str) -> None:
        pipe = variants()[stored]
        train, val = pipe.split({"train": 0.6, "val": 0.4}).values()
        others = fp.from_sequence([{"id": 1, "half": 2}, {"id": 2, "half": 3}])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for stats in (fp.fit(train, STATISTICS), fp.fit(others, STATISTICS)):
                train.standardize(stats).explain()
                val.standardize(stats).explain()
            pipe.standardize(fp.fit(pipe, STATISTICS)).split({"train": 0.6, "val": 0.4})["val"].explain()
