"""`filter`: by functions of rows, and by expressions over columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, StateError, UnknownLengthError
from feedpipe.extensions import Rows
from feedpipe.testing import check_operator

from ..tables import TABLE, variants


def test_law():
    assert check_operator(fp.from_sequence(range(40)).filter(lambda x: x % 3)) == [x for x in range(40) if x % 3]
    assert check_operator(fp.from_sequence(range(40)).filter(lambda x: False)) == []
    pipe = fp.from_sequence(range(40)).filter(lambda x: x % 3).filter(lambda x: x % 2)
    assert check_operator(pipe) == [x for x in range(40) if x % 3 and x % 2]


def test_rows_before_a_failure_come_first():
    def broken(x: int) -> bool:
        return bool(x % 2) if x < 9 else 1 // 0 == 0

    rows: list[int] = []
    with pytest.raises(fp.RowError, match="row 10"):
        rows.extend(fp.from_sequence(range(30)).filter(broken))
    assert rows == [1, 3, 5, 7]


@pytest.mark.parametrize("count", [1, 4])
def test_an_answer_that_is_neither_true_nor_false_is_an_error_of_its_row(count):
    with pytest.raises(fp.RowError, match="truth value of an array.*(.|\n)*row 1\n"):
        list(fp.from_sequence(range(count)).filter(lambda x: np.array([True, False])))


def test_a_stop_iteration_is_an_error_not_the_end():
    numbers = iter([True] * 5)
    with pytest.raises(fp.RowError, match="StopIteration"):
        list(fp.from_sequence(range(30)).filter(lambda x: next(numbers)))


class StopsWhenTested:
    def __bool__(self) -> bool:
        return next(iter(()))


@pytest.mark.parametrize("failing", range(10))
@pytest.mark.parametrize("source", [fp.from_sequence(range(10)), fp.from_arrays({"x": np.arange(10)})])
def test_a_stop_iteration_is_an_error_of_its_row(source, failing):
    def keep(row):
        if number(row) == failing:
            next(iter(()))
        return True

    def answer(row):
        return StopsWhenTested() if number(row) == failing else True

    def number(row):
        return row["x"] if isinstance(row, dict) else row

    for predicate in (keep, answer):
        rows = []
        with pytest.raises(fp.RowError, match=f"{predicate.__name__} raised StopIteration(.|\n)*row {failing + 1}\n"):
            rows.extend(source.filter(predicate))
        assert [number(row) for row in rows] == list(range(failing))


@pytest.mark.parametrize("failing", range(10))
def test_an_element_whose_truth_value_stops_is_an_error_of_its_row(failing):
    elements = [*range(1, 11)]
    elements[failing] = StopsWhenTested()
    rows = []
    with pytest.raises(fp.RowError, match=f"bool raised StopIteration(.|\n)*row {failing + 1}\n"):
        rows.extend(fp.from_sequence(elements).filter(bool))
    assert rows == elements[:failing]


def test_length_is_unknown():
    pipe = fp.from_sequence(range(3)).filter(bool)
    with pytest.raises(UnknownLengthError, match=r"filter\(bool\)"):
        len(pipe)
    assert bool(pipe) and list(pipe) == [1, 2]
    with pytest.raises(ArgumentTypeError, match="`predicate` must be callable but got: None"):
        fp.from_sequence([1]).filter(None)


EXPRESSIONS: dict[str, tuple[Any, Any]] = {
    "numbers": ((pc.field("id") > 1) & (pc.field("half") != 1.5), lambda row: row["id"] > 1 and row["half"] != 1.5),
    "text, with a null": (pc.field("text") != "c", lambda row: row["text"] is not None and row["text"] != "c"),
    "a null": (pc.field("tags").is_null(), lambda row: row["tags"] is None),
    "a function": (pc.list_value_length(pc.field("tags")) > 0, lambda row: bool(row["tags"])),
    "all": (pc.field("id") > 0, lambda row: True),
    "none": (pc.field("id") < 0, lambda row: False),
    "no column": (pc.scalar(True), lambda row: True),
}


@pytest.mark.parametrize(("expression", "predicate"), EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
@pytest.mark.parametrize("stored", ["columns", "streamed columns"])
def test_an_expression_selects_what_a_function_selects(stored, expression, predicate):
    pipe = variants()[stored]
    assert check_operator(pipe.filter(expression), samples=4) == list(pipe.filter(predicate))


def test_an_expression_makes_no_row_a_python_object(monkeypatch):
    monkeypatch.setattr(Rows, "__iter__", lambda self: 1 / 0)
    array = np.arange(30)
    pipe = fp.from_arrays({"x": array, "y": array.reshape(30, 1)}).filter(pc.field("x") > 9)
    batches = list(pipe.batch(30))
    assert [batch["x"].tolist() for batch in batches] == [list(range(10, 30))]
    assert batches[0]["y"].shape == (20, 1)


def test_an_expression_touches_only_its_columns():
    union = pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([4, 5, 6])])
    table = pa.table({"x": [1, 2, 3], "u": union})
    assert list(fp.from_table(table).filter(pc.field("x") > 1)) == [{"x": 2, "u": 5}, {"x": 3, "u": 6}]
    source = fp.from_arrays({"x": np.arange(9), "y": np.arange(9)}).shuffle()
    batch = next(iter(source.filter(pc.field("x") >= 0).batch(9)))
    assert sorted(batch["y"].tolist()) == list(range(9))


def test_an_expression_that_does_not_fit_is_an_error_before_the_run():
    pipe = fp.from_table(TABLE)
    with pytest.raises(PlanError, match="there is no column 'taxt'; did you mean 'text'") as caught:
        pipe.filter(pc.field("taxt") == "a").explain()
    assert '`.filter((taxt == "a"))`' in str(caught.value) and __file__ in str(caught.value)
    with pytest.raises(PlanError, match="does not fit the columns: Function 'greater' has no kernel matching"):
        pipe.filter(pc.field("text") > 3).head()
    with pytest.raises(PlanError, match="does not fit the columns: it gives int64 and not true or false"):
        pipe.filter(pc.field("id") + 1).head()
    with pytest.raises(DataError, match="there is no column 'taxt'; did you mean 'text'(.|\n)*\n  on .*, row 1\n  at "):
        list(pipe.batch(2).unbatch().filter(pc.field("taxt") == "a"))
    with pytest.raises(ArgumentError, match="`predicate` must name its columns but got an expression with a column by"):
        pipe.filter(pc.field(0) > 1)


@pytest.mark.parametrize("source", [fp.from_sequence([{"x": 1}] * 5), fp.from_iterable([{"x": 1}] * 5)])
def test_an_expression_needs_a_table(source):
    with pytest.raises(
        DataError, match="an expression tests rows of a table, but one is of type dict; give a function"
    ):
        list(source.filter(pc.field("x") > 0))


def test_rows_before_one_without_a_value_come_first():
    table = pa.table({"n": ["1", "2", "30", "x", "5"]})
    rows: list[Any] = []
    with pytest.raises(DataError, match="Failed to parse string: 'x' as a scalar of type int64\n  on .*, row 4\n  at "):
        rows.extend(fp.from_table(table).filter(pc.field("n").cast("int64") > 1))
    assert rows == [{"n": "2"}, {"n": "30"}]


def test_a_state_is_refused_if_the_expression_differs():
    def loader(least: int) -> fp.Loader[Any]:
        return fp.Loader(fp.from_table(TABLE).filter(pc.field("id").isin(list(range(least, 100)))))

    state = loader(2).state_dict()
    loader(2).load_state_dict(state)
    with pytest.raises(StateError):
        loader(3).load_state_dict(state)


@pytest.mark.slow
def test_an_expression_in_workers():
    pipe = fp.from_table(TABLE).filter(pc.field("id") > 1)
    with fp.Loader(pipe, workers=2) as loader:
        assert sorted(row["id"] for row in loader) == [2, 3, 4, 5]
