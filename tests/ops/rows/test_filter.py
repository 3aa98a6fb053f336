"""`filter`: by functions of rows, and by expressions over columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, PlanError, StateError, UnknownLengthError
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


def test_a_state_is_refused_if_the_expression_differs():
    def loader(least: int) -> fp.Loader[Any]:
        return fp.Loader(fp.from_table(TABLE).filter(pc.field("id").isin(list(range(least, 100)))))

    state = loader(2).state_dict()
    loader(2).load_state_dict(state)
    with pytest.raises(StateError):
        loader(3).load_state_dict(state)
