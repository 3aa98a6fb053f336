"""Items of a cut as plain values, as short as can be, and what a shard leaves of its items."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from feedpipe.extensions import Cursor, Json

from ..support.plan import Cut, Item, Part, Segment, items_ended, items_left

counts = st.integers(0, 50)
cursors = st.none() | st.builds(lambda *values: Cursor(*values).plain, counts, counts, counts)
segments = st.builds(Segment, counts, st.none() | counts, st.integers(1, 4), cursors)
listed = st.lists(st.tuples(counts, st.lists(segments, max_size=3).map(tuple)), max_size=3).map(tuple)
ends = st.none() | st.tuples(counts, counts, counts)
parts = st.builds(Part, listed, st.none() | st.tuples(counts, counts), ends)
marks = st.dictionaries(st.sampled_from("012"), st.lists(counts, min_size=3, max_size=3), max_size=2)
items = st.builds(Item, counts, st.none() | st.dictionaries(st.sampled_from("012"), parts), cursors, marks, cursors)
groups = st.builds(Item, counts, cursor=cursors, marks=marks, leftovers=st.lists(items, max_size=2).map(tuple))


@given(items=st.lists(items | groups, max_size=3))
def test_items_come_back_from_json(items: list[Item]) -> None:
    cut = Cut(4, 8, "digest", {3: tuple(items), 5: ()})
    assert Cut.of(json.loads(json.dumps(cut.plain))) == cut
    assert cut.of_shards(range(4, 6)).items == {5: ()}


def test_defaults_take_no_room() -> None:
    whole = Part(((2, (Segment(0, None), Segment(3, 9), Segment(3, 9, 2), Segment(3, None, 1, [1, 2, 3]))),))
    assert Item(7).plain == [7]
    assert Item(7, {"0": Part()}).plain == [7, {"0": [[]]}]
    assert Item(7, {"0": whole}).plain == [7, {"0": [[[2, [[0], [3, 9], [3, 9, 2], [3, None, 1, [1, 2, 3]]]]]]}]
    assert Item(7, None, [0, 1, 2]).plain == [7, None, [0, 1, 2]]


def test_an_item_has_begun_if_it_has_something_to_give() -> None:
    assert not Item(7).begun and not Item(7, leftover=[0, 0, 3]).begun
    assert Item(7, cursor=[0, 0, 3]).begun and Item(7, leftovers=(Item(3),)).begun


def test_items_that_are_left() -> None:
    shard = (Item(0), Item(1), Item(2), Item(3))
    assert items_left(shard, None, {}) == [*shard]
    leftover: list[Json] = [4, 0, 9]
    token: list[Json] = [2, [5, 1, 6], [[0, leftover]]]  # in item 2; item 0 left rows over
    left = items_left(shard, [token, 3, 20], {"0": [0, 0, 8]})
    assert left == [Item(0, leftover=leftover), Item(2, cursor=[5, 4, 6], marks={"0": [0, 0, 8]}), Item(3)]


def test_items_that_left_rows_over() -> None:
    leftover: list[Json] = [4, 0, 9]
    assert items_ended((Item(0), Item(1)), None) == []
    assert items_ended((Item(0), Item(1)), [[[1, leftover]], 0, 0]) == [Item(1, leftover=leftover)]
