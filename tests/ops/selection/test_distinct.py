"""`distinct`: rows left out because of rows before them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, StateError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..exactness import check_elastic, check_ranks, check_resumes, digest, through_json
from ..tables import TABLE, variants


def expected(values: list[Any], last: int) -> list[Any]:
    return [value for k, value in enumerate(values) if value not in values[max(0, k - last) : k]]


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 12), st.booleans())
def test_law(values: list[int], last: int, streamed: bool) -> None:
    pipe = fp.from_sequence(values)
    pipe = pipe.filter(lambda x: True) if streamed else pipe
    assert check_operator(pipe.distinct(last=last), samples=6) == expected(values, last)
    assert check_operator(pipe.distinct(lambda x: x % 2, last=last).distinct(last=2), samples=3)[:1] == values[:1]


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


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = fp.from_sequence([1])
    with pytest.raises(ArgumentError, match="`last` must be >= 1 but got: 0"):
        pipe.distinct(last=0)
    with pytest.raises(ArgumentTypeError, match="`key` must be the name of a column, names, or a function of the row"):
        pipe.distinct(3, last=2)  # type: ignore[arg-type]
    pipe.distinct("a", last=7).explain()
    assert "runs again at most 7 rows of `distinct`" in capsys.readouterr().out


# Without `last`, of indexed pipes.


values = st.one_of(
    st.lists(st.integers(0, 9), max_size=60),
    st.lists(st.sampled_from(["a", "b", "ä", "", None, "long " * 20]), max_size=40),
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([b"x", 1.5, None])), max_size=40),
    st.lists(st.sampled_from([0, 0.0, 1, True, 1.5, "1", b"1"]), max_size=30),
)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(values)
def test_the_first_row_of_each_key_stays(values: list[Any]) -> None:
    firsts = list(dict.fromkeys(values))
    rows = [{"n": n, "key": value} for n, value in enumerate(values)]
    assert check_operator(fp.from_sequence(values).distinct(), samples=2) == firsts
    for key in ("key", lambda row: row["key"], ["key"]):
        pipe = fp.from_sequence(rows).distinct(key)
        assert [row["n"] for row in check_operator(pipe, samples=2)] == [values.index(first) for first in firsts]
        assert pipe.indexed and len(pipe) == len(firsts)
    assert list(fp.from_sequence(rows).distinct()) == rows


@pytest.mark.slow
def test_resumes_ranks_and_workers() -> None:
    pipe = fp.from_sequence([(n * n) % 97 for n in range(300)]).distinct()
    check_resumes(pipe, epochs=2)
    check_resumes(pipe.filter(lambda x: True).batch(4))
    check_ranks(pipe)
    check_elastic(pipe.shuffle(), 13)


def test_the_rows_never_change() -> None:
    pipe = fp.from_sequence([{"text": f"{n % 61} ä"} for n in range(400)])
    assert digest(fp.Loader(pipe.distinct("text").shuffle(), seed=9)) == "e13de69aa4b72519ae3a05f2f825f1fa"


def test_a_state_of_other_rows_is_refused() -> None:
    def keys(modulus: int) -> fp.Pipe[int]:
        return fp.from_sequence(range(9)).map(lambda x: x % modulus).distinct()

    loader = fp.Loader(keys(3))
    next(iter(loader))
    with pytest.raises(StateError, match=r"`rows` in `distinct\(\)` was .* and is now"):
        fp.Loader(keys(4)).load_state_dict(through_json(loader.state_dict()))


def test_errors_without_last(capsys: pytest.CaptureFixture[str]) -> None:
    source = fp.from_sequence([1, 2, 1])
    with pytest.raises(PlanError, match=r"must follow an indexed pipe, .*; give `last=`, put `.load\(\)` before"):
        source.filter(bool).distinct()
    with pytest.raises(PlanError, match=r"`distinct` must come before `shuffle\(\)`, because the first row of a key"):
        source.shuffle().take(2).distinct()
    with pytest.raises(DataError, match=r"type object has no digest that is the same in each process(.|\n)*row 1\n"):
        len(source.distinct(lambda row: object()))
    with pytest.raises(PlanError, match="there is no column 'txet'; did you mean 'text'"):
        fp.from_table(TABLE).distinct("txet").explain()
    assert list(fp.from_sequence([[1], [2], [1]]).distinct()) == [[1], [2]]
    source.distinct().explain()
    assert "keeps 2 of 3 rows, the first of each key" in capsys.readouterr().out
