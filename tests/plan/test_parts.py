"""Which places of a stream are open, which are left, and how what is left is divided: against lists of places."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.extensions import Cursor

from ..support.plan import Line, Part, Span, default_spans, divide_rest, first_places, places_after

END = 200
"""A stream without a known end is looked at up to here."""


def places(spans: list[Span]) -> list[int]:
    """The places of spans, in their order."""
    return [place for s in spans for place in range(s.start, END if s.stop is None else s.stop, s.step)]


@st.composite
def spans(draw: st.DrawFn, *, endless: bool = True) -> list[Span]:
    """Some spans with a known end, and perhaps one without."""
    numbers = st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(1, 5))
    finite = [Span(*each) for each in draw(st.lists(numbers, min_size=1, max_size=4))]
    has_endless = endless and draw(st.booleans())
    return [*finite, Span(draw(st.integers(0, 40)), None, draw(st.integers(1, 5)))] if has_endless else finite


def length_of(span: Span) -> int:
    return 30 if span.length is None else span.length


@given(spans(), st.data())
def test_a_mark_cuts_segments_into_what_is_open_and_what_is_left(whole: list[Span], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(whole) - 1))
    count = data.draw(st.integers(0, sum(map(length_of, whole[number:]))))
    opened, rest = first_places(whole, number, count), places_after(whole, [0, number, count])
    before = len(places(whole[:number])) + count
    assert places(opened) == places(whole)[:before]
    assert places(rest) == places(whole)[before:]
    assert all(span.length != 0 for span in rest)


def test_only_a_segment_that_was_begun_goes_on_from_the_cursor_of_the_mark() -> None:
    whole = [Span(1, None, 3, [None, 0, 0]), Span(2, 9)]
    cursor = [7, 0, 20]
    assert places_after(whole, [0, 0, 5, cursor]) == [Span(16, None, 3, cursor), Span(2, 9)]
    assert places_after(whole, [0, 0, 0, cursor]) == whole, "nothing of it is open"
    assert places_after(whole, [0, 0, 5]) == [whole[0].after(5), whole[1]]


def line(*bounds: int) -> Line:
    return Line(np.array(bounds))


class TestPart:
    part = Part(((0, (Span(0, 5),)), (2, (Span(3, 9), Span(1, 2)))), (2, 1))

    def test_segments_of_a_round(self) -> None:
        of_line = line(0, 4, 10)
        assert self.part.spans(0, of_line) == [Span(0, 5)]
        assert self.part.spans(1, of_line) == [], "a round between those listed is not a later one"
        assert self.part.spans(2, of_line) == [Span(3, 9), Span(1, 2)]
        assert self.part.spans(3, of_line) == self.part.spans(7, of_line) == [Span(4, 10)]
        assert Part(((0, (Span(0, 5),)),)).spans(1, of_line) == []
        assert Part(later=(2, 0)).spans(0, of_line) == [Span(0, 4)]

    def test_an_end(self) -> None:
        part = Part(self.part.listed, self.part.later, (2, 1, 1))
        assert part.spans(0, None) == [Span(0, 5)]
        assert part.spans(2, None) == [Span(3, 9), Span(1, 2)]
        assert part.spans(3, line(0, 4, 10)) == []
        assert Part(self.part.listed, None, (0, 0, 2)).spans(0, None) == [Span(0, 2)]
        two_rounds = ((0, (Span(0, 5),)), (1, (Span(6, 9),)))
        assert Part(two_rounds, None, (2, 0, 1)).spans(1, None) == [Span(6, 9)]

    def test_what_is_left_behind_a_mark(self) -> None:
        of_line = line(0, 4, 10)
        for number in (0, 1, 2, 3):
            assert self.part.rest(number, None, of_line) == self.part.spans(number, of_line)
        assert self.part.rest(0, [2, 0, 4], of_line) == []
        assert self.part.rest(2, [2, 0, 4], of_line) == [Span(7, 9), Span(1, 2)]
        assert self.part.rest(3, [2, 0, 4], of_line) == [Span(4, 10)]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_places_of_a_line_by_shard(sizes: list[int], start: int, stop: int) -> None:
    bounds = [0, *itertools.accumulate(sizes)]
    start, stop = min(start, bounds[-1]), min(stop, bounds[-1])
    parts = line(*bounds).by_shard([Span(start, stop)])
    assert [bounds[shard] + place for shard, first, end in parts for place in range(first, end)] == [
        *range(start, stop)
    ]
    assert all(0 <= first < end <= sizes[shard] for shard, first, end in parts)


def test_the_segments_of_shards() -> None:
    assert default_spans(None, 4, 1) == [Span(1, None, 4)]
    assert default_spans(line(0, 2, 9), 2, 1) == [Span(2, 9)]
    assert [default_spans(line(0, 2, 9), 3, shard) for shard in range(3)] == [
        [Span(0, 3)],
        [Span(3, 6)],
        [Span(6, 9)],
    ]


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 9), st.booleans())
def test_another_number_of_shards_cuts_the_whole_line(weights: list[int], shards: int, weighted: bool) -> None:
    whole = Line(np.array([0, len(weights)]), (lambda: np.array(weights, np.int64)) if weighted else None)
    expected = divide_rest([Span(0, len(weights))], whole, shards)
    assert shards == 1 or [default_spans(whole, shards, shard) for shard in range(shards)] == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6), st.integers(1, 9), st.data())
def test_the_rest_of_a_line_is_divided_once_and_evenly(
    gaps: list[tuple[int, int]], shards: int, data: st.DataObject
) -> None:
    rest, at = [], 0
    for gap, size in gaps:
        rest.append(Span(at + gap, at + gap + size))
        at += gap + size
    divided = divide_rest(data.draw(st.permutations(rest)), line(0, at), shards)
    assert [places(part) for part in divided] == [list(part) for part in _evenly(sorted(places(rest)), shards)], (
        "neighbours stay together, in order"
    )
    for part in divided:
        assert all(span.length for span in part)
        assert all(before.stop < after.start for before, after in pairwise(part)), "neighbours are one span"


def _evenly(values: list[int], shards: int) -> list[list[int]]:
    total = len(values)
    return [values[total * shard // shards : total * (shard + 1) // shards] for shard in range(shards)]


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 9))
def test_places_with_weights_are_cut_at_the_nearest_borders(weights: list[int], shards: int) -> None:
    whole = Line(np.array([0, len(weights)]), lambda: np.array(weights, np.int64))
    divided = divide_rest([Span(0, len(weights))], whole, shards)
    assert [place for part in divided for place in places(part)] == list(range(len(weights)))
    ends = [0, *itertools.accumulate(weights)]
    borders = list(itertools.accumulate(len(places(part)) for part in divided))[:-1]
    for shard, border in enumerate(borders, 1):
        distance = abs(ends[border] - ends[-1] * shard / shards)
        assert distance <= min(abs(end - ends[-1] * shard / shards) for end in ends) + 1e-9


def test_weights_are_those_of_what_is_left() -> None:
    whole = Line(np.array([0, 6]), lambda: np.array([100, 1, 1, 100, 1, 3]))
    assert divide_rest([Span(4, 6), Span(1, 3)], whole, 2) == [
        [Span(1, 3), Span(4, 5)],
        [Span(5, 6)],
    ]


@given(st.integers(1, 5), st.integers(1, 6), st.data())
def test_rows_of_unknown_number_are_divided_once(shards: int, new: int, data: st.DataObject) -> None:
    """Shards have opened different numbers of rows; a second division begins in the middle of the first."""
    rest = [Span(shard, None, shards) for shard in range(shards)]
    taken: list[int] = []
    for count in (new, data.draw(st.integers(1, 6))):
        left: list[Span] = []
        for span in rest:
            number = data.draw(st.integers(0, 7 if span.length is None else span.length))
            taken += places([span.first(number)])
            left += places_after([span], [0, 0, number, [None, 0, span.start + number * span.step]])
        divided = divide_rest(left, None, count)
        assert sorted(taken + [place for part in divided for place in places(part)]) == list(range(END))
        edges = [part[-1].start for part in divided]
        assert edges == list(range(edges[0], edges[0] + count)), "from some row on, all shards take rows in turn"
        assert all(part[-1][1:3] == (None, count) for part in divided)
        open_rows = [row for row in taken if row >= edges[0]]
        assert not open_rows and (edges[0] == 0 or edges[0] - 1 in {*taken} or any(part[:-1] for part in divided))
        holes = [len(places(part[:-1])) for part in divided]
        assert max(holes) - min(holes) <= 1
        for cursor in (part[-1].cursor for part in divided):
            assert cursor is None or Cursor.of(cursor).position <= edges[0]
        rest = [span for part in divided for span in part]


def test_the_farthest_cursor_before_the_edge_is_where_all_go_on() -> None:
    rest = [Span(8, None, 2, [None, 0, 6]), Span(5, None, 2, [None, 0, 4])]
    divided = divide_rest(rest, None, 3)
    assert [part[-1] for part in divided] == [Span(7 + shard, None, 3, [None, 0, 6]) for shard in range(3)]
    assert [part[:-1] for part in divided] == [[], [], [Span(5, 7, 2, [None, 0, 4])]]
    ahead = [Span(8, None, 2, [None, 0, 8]), Span(5, None, 2, [None, 0, 7])]
    assert divide_rest(ahead, None, 1)[0][-1] == Span(7, None, 1, [None, 0, 7]), "a cursor at the edge will do"
    assert divide_rest([s._replace(cursor=[None, 0, 8]) for s in rest], None, 1)[0][-1].cursor is None


def test_a_stream_of_which_nothing_is_open_has_no_holes() -> None:
    whole = [Span(shard, None, 2) for shard in range(2)]
    assert divide_rest(whole, None, 3) == [[Span(shard, None, 3)] for shard in range(3)]


def test_a_shard_that_has_ended_hands_nothing_on() -> None:
    rest = [Span(4, None, 3), Span(8, None, 3), Span(0, 9, 3)]
    assert divide_rest(rest, None, 2) == [
        [Span(0, 3, 3), Span(4, None, 3)],
        [Span(3, 9, 3), Span(8, None, 3)],
    ]
    assert divide_rest([], None, 2) == [[], []]
    holes = [Span(0, 3, 3), Span(4, 5), Span(5, 6)]
    assert divide_rest(holes, None, 1) == [[Span(0, 3, 3), Span(4, 6)]], "neighbours are one span"
    assert divide_rest(rest[:1], None, 3) == [[Span(4, None, 3)], [], []]


@pytest.mark.parametrize("step", [1, 3])
def test_a_segment(step: int) -> None:
    span = Span(2, 15, step)
    assert span.length == len(range(2, 15, step))
    assert places([span.first(3), span.after(3)]) == places([span])
