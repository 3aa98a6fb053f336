"""`distinct`: rows left out because of rows before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


def expected(values: list[Any], last: int) -> list[Any]:
    return [value for k, value in enumerate(values) if value not in values[max(0, k - last) : k]]


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 12), st.booleans())
def test_law(values: list[int], last: int, streamed: bool) -> None:
    pipe = fp.from_sequence(values)
    pipe = pipe.filter(lambda x: True) if streamed else pipe
    assert check_operator(pipe.distinct(last=last), samples=6) == expected(values, last)
    assert check_operator(pipe.distinct(lambda x: x % 2, last=last).distinct(last=2), samples=3)[:1] == values[:1]


def test_few_keys_are_kept() -> None:
    values = np.random.default_rng(1).integers(0, 3000, 20_000).tolist()
    assert list(fp.from_sequence(values).distinct(last=1000)) == expected(values, 1000)


DOUBLED = pa.table(
    {
        "id": [1, 2, 1, 3, 2, 4],
        "text": ["a", "b", "a", "a", None, None],
        "tags": [["u"], [], ["u"], [], [], []],
    }
)


@pytest.mark.parametrize("stored", variants())
@pytest.mark.parametrize(
    ("key", "ids"),
    [
        ("id", [1, 2, 3, 4]),
        ("text", [1, 2, 2]),
        (["text", "id"], [1, 2, 3, 2, 4]),
        (lambda row: row["id"] % 2, [1, 2]),
    ],
)
def test_keys(stored: str, key: Any, ids: list[int]) -> None:
    pipe = variants(DOUBLED)[stored].distinct(key, last=10)
    assert [row["id"] for row in check_operator(pipe)] == ids
    assert isinstance(next(iter(pipe.batch(9))), Rows) == ("columns" in stored)


@pytest.mark.parametrize("stored", variants())
def test_whole_rows(stored: str) -> None:
    pipe = variants(DOUBLED.select(["id", "text"]))[stored]
    rows = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "a"}]
    assert check_operator(pipe.distinct(last=9)) == [*rows, {"id": 2, "text": None}, {"id": 4, "text": None}]
    both = fp.from_table(DOUBLED.select(["id", "text"])).concat(fp.from_sequence([{"text": "a", "id": 1}]))
    assert len(list(both.distinct(last=9))) == 5


@pytest.mark.parametrize("stored", variants())
def test_errors_name_the_row(stored: str) -> None:
    pipe = variants(DOUBLED)[stored]
    for chain in (pipe.distinct("tags", last=5), pipe.distinct(last=5), pipe.distinct(lambda row: [1], last=5)):
        with pytest.raises(
            DataError, match=r"a key must be hashable but is: \[(.|\n)*; give another `key`\n  on .*row 1"
        ):
            list(chain)
    rows: list[Any] = []
    with pytest.raises(fp.RowError, match=r"distinct(.|\n)*failed with ZeroDivisionError(.|\n)*row 4\n"):
        rows.extend(pipe.distinct(lambda row: 1 / (row["id"] - 3), last=5))
    assert [row["id"] for row in rows] == [1, 2]


def test_an_unknown_column() -> None:
    with pytest.raises(PlanError, match="there is no column 'txet'; did you mean 'text'(.|\n)*\n  at ") as caught:
        fp.from_table(TABLE).distinct("txet", last=5).explain()
    assert __file__ in str(caught.value)
    for stored in ("dicts", "streamed dicts"):
        with pytest.raises(DataError, match="there is no column 'txet'; did you mean 'text'(.|\n)*row 1\n"):
            list(variants()[stored].distinct(["txet"], last=5))
    with pytest.raises(DataError, match="rows must be dicts, .* but one is of type int"):
        list(fp.from_sequence([1]).distinct("a", last=5))


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = fp.from_sequence([1])
    with pytest.raises(ArgumentError, match="`last` must be >= 1 but got: 0"):
        pipe.distinct(last=0)
    with pytest.raises(ArgumentTypeError, match="`key` must be the name of a column, names, or a function of the row"):
        pipe.distinct(3, last=2)  # type: ignore[arg-type]
    pipe.distinct("a", last=7).explain()
    assert "runs again at most 7 rows of `distinct`" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
def test_all_workers_together_give_the_rows() -> None:
    pipe = fp.from_sequence([k % 7 for k in range(60)]).filter(lambda x: True).distinct(last=5)
    with fp.Loader(pipe, workers=2) as loader:
        assert sorted(loader) == sorted(pipe)
