"""Tables some of whose rows were skipped are joined, cut and taken apart as the lists of their rows are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feedpipe.extensions import BlockRows, Rows

from ..support.core import (
    SKIPPED,
    Skipped,
    SkippedRow,
    column_names,
    concat,
    has_skipped,
    nbytes,
    parted,
    select_columns,
    take,
    take_joined,
    zipped,
)

MARKS = ["row", "skipped", "skipped before"]


@pytest.fixture(scope="module", autouse=True)
def _others_have_none() -> Iterator[None]:
    """The tests that follow in this process look for no row that was skipped."""
    before, Skipped.exist = Skipped.exist, True
    yield
    Skipped.exist = before


def mark(name: str) -> Skipped | None:
    skipped = Skipped((SkippedRow("map", "bad"),))
    return None if name == "row" else skipped if name == "skipped" else skipped.before(None)


def table(marks: list[str], first: int, how: str) -> BlockRows:
    """Rows with these marks; `how` says in what memory."""
    count = len(marks)
    columns: dict[str, Any] = {"x": np.arange(first, first + count), "y": np.full((count, 2), 0.5)}
    if how == "list":
        return [mark("skipped") for _ in marks]
    if how == "marked":
        columns[SKIPPED] = np.array([*map(mark, marks), None], object)[:-1]
    return Rows.selected(columns, np.arange(count)) if how == "selected" else Rows(columns, count)


kinds = st.tuples(
    st.lists(st.sampled_from(MARKS), max_size=4), st.sampled_from(["plain", "list", "marked", "selected"])
)
parts_of = st.lists(kinds, min_size=1, max_size=4)


@given(st.lists(parts_of, min_size=1, max_size=3), st.data())
@example([[([], "marked"), ([], "plain")]], None)
@example([[([], "plain"), ([], "marked"), (["row"], "plain")]], None)
@example([[(["row"], "plain"), (["skipped"], "list")], [(["row"], "plain"), (["row"], "plain")]], None)
@example([[(["row"], "plain"), (["row"], "plain")], [(["row"], "plain"), (["skipped", "row"], "marked")]], None)
def test_tables_joined_twice(groups: list[list[tuple[list[str], str]]], data: st.DataObject | None) -> None:
    parts = [[table(marks, 10 * k, how) for k, (marks, how) in enumerate(group)] for group in groups]
    expected = [row for group in parts for part in group for row in part]
    joined = concat([concat(group) for group in parts])
    flat = [part for group in parts for part in group]
    if isinstance(joined, Rows):
        assert nbytes(joined) >= 0
        assert column_names(joined)[:2] == ["x", "y"]
        assert column_names(select_columns(joined, {"z": "x"})) == ["z"]
    elif any(isinstance(row, dict) for row in expected):
        assert not all(isinstance(part, Rows) for part in flat)
    assert has_skipped(joined) or not any(isinstance(row, Skipped) for row in expected)
    assert repr(list(pickle.loads(pickle.dumps(joined)))) == repr(expected)
    assert repr(list(joined)) == repr(expected)

    places = np.array(data.draw(st.permutations(range(len(expected)))) if data else range(len(expected)), np.int64)
    (taken,) = take_joined(flat, places)
    permuted = [expected[place] for place in places]
    assert repr(list(taken)) == repr(list(take(joined, places))) == repr(permuted)

    again = parted(concat([concat(group) for group in parts]))
    assert not has_skipped(again.values)
    rows = [row.value if isinstance(row, Skipped) else row for row in expected]
    remain = [place for place, row in enumerate(expected) if not (isinstance(row, Skipped) and row.is_row)]
    assert list(again.places) == remain
    assert repr(list(again.values)) == repr([rows[place] for place in remain])
    assert sorted(again.skipped) == [place for place, row in enumerate(expected) if isinstance(row, Skipped)]


def test_a_row_is_zipped_with_rows_that_were_skipped() -> None:
    """The row of a tuple is skipped if a part of it is; a group whose rows were skipped in part keeps its value."""
    lost, partly = Skipped((SkippedRow("map", "bad"),)), Skipped((SkippedRow("batch", "short"),), [1], is_row=False)
    rows: list[Any] = zipped([[0, 1, 2], [3, partly, partly], [lost, 4, lost]])
    assert [(row.skips, row.value, row.is_row) for row in rows] == [
        (lost.skips, None, True),
        (partly.skips, (1, [1], 4), False),
        ((*partly.skips, *lost.skips), None, True),
    ]


@given(st.lists(st.sampled_from(MARKS), max_size=8), st.data())
def test_results_are_merged_as_tables_and_as_lists(marks: list[str], data: st.DataObject) -> None:
    parts = parted([{"x": place} if name == "row" else mark(name) for place, name in enumerate(marks)])
    count = data.draw(st.integers(0, len(parts.places)))
    rows = [{"y": 10 * place} for place in parts.places[:count]]
    table = Rows({"y": np.array([row["y"] for row in rows], np.int64)}, count)
    assert repr(list(parts.merged(table))) == repr(list(parts.merged(rows)))
