"""The runs of a redivision as plain values, as short as can be, and what a shard leaves of its runs."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from feedpipe.extensions import Cursor, Json

from ..support.plan import OpenRun, Part, Redivision, Span, runs_ended, runs_left

counts = st.integers(0, 50)
cursors = st.none() | st.builds(lambda *values: Cursor(*values).plain, counts, counts, counts)
spans = st.builds(Span, counts, st.none() | counts, st.integers(1, 4), cursors)
listed = st.lists(st.tuples(counts, st.lists(spans, max_size=3).map(tuple)), max_size=3).map(tuple)
ends = st.none() | st.tuples(counts, counts, counts)
parts = st.builds(Part, listed, st.none() | st.tuples(counts, counts), ends)
marks = st.dictionaries(st.sampled_from("012"), st.lists(counts, min_size=3, max_size=3), max_size=2)
runs = st.builds(OpenRun, counts, st.none() | st.dictionaries(st.sampled_from("012"), parts), cursors, marks, cursors)
groups = st.builds(OpenRun, counts, cursor=cursors, marks=marks, tail_of=st.lists(runs, max_size=2).map(tuple))


@given(runs=st.lists(runs | groups, max_size=3))
def test_runs_come_back_from_json(runs: list[OpenRun]) -> None:
    redivision = Redivision(4, 8, "digest", {3: tuple(runs), 5: ()})
    assert Redivision.of(json.loads(json.dumps(redivision.plain))) == redivision
    assert redivision.of_shards(range(4, 6)).runs == {5: ()}


def test_defaults_take_no_room() -> None:
    whole = Part(((2, (Span(0, None), Span(3, 9), Span(3, 9, 2), Span(3, None, 1, [1, 2, 3]))),))
    assert OpenRun(7).plain == [7]
    assert OpenRun(7, {"0": Part()}).plain == [7, {"0": [[]]}]
    assert OpenRun(7, {"0": whole}).plain == [7, {"0": [[[2, [[0], [3, 9], [3, 9, 2], [3, None, 1, [1, 2, 3]]]]]]}]
    assert OpenRun(7, None, [0, 1, 2]).plain == [7, None, [0, 1, 2]]


def test_an_item_has_begun_if_it_has_something_to_give() -> None:
    assert not OpenRun(7).begun and not OpenRun(7, leftover=[0, 0, 3]).begun
    assert OpenRun(7, cursor=[0, 0, 3]).begun and OpenRun(7, tail_of=(OpenRun(3),)).begun


def test_runs_that_are_left() -> None:
    shard = (OpenRun(0), OpenRun(1), OpenRun(2), OpenRun(3))
    assert runs_left(shard, None, {}) == [*shard]
    leftover: list[Json] = [4, 0, 9]
    token: list[Json] = [2, [5, 1, 6], [[0, leftover]]]  # in run 2; run 0 left rows over
    left = runs_left(shard, [token, 3, 20], {"0": [0, 0, 8]})
    assert left == [OpenRun(0, leftover=leftover), OpenRun(2, cursor=[5, 4, 6], marks={"0": [0, 0, 8]}), OpenRun(3)]


def test_runs_that_left_rows_over() -> None:
    leftover: list[Json] = [4, 0, 9]
    assert runs_ended((OpenRun(0), OpenRun(1)), None) == []
    assert runs_ended((OpenRun(0), OpenRun(1)), [[[1, leftover]], 0, 0]) == [OpenRun(1, leftover=leftover)]
