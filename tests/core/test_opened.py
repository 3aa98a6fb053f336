"""`Opened`: marks only move on, and a state may keep those that it was given."""

from __future__ import annotations

from ..support.core import Opened


def test_a_mark_moves_on_by_round_segment_and_places() -> None:
    opened = Opened()
    for rounds, segment, places in [((), 0, 3), ((), 0, 5), ((), 1, 2), ((1,), 0, 1)]:
        before = opened.marks
        opened.note("0", rounds, segment, places)
        assert opened.marks == {"0": [rounds[0] if rounds else 0, segment, places]}
        assert opened.marks is not before, "a state may keep the marks of before"


def test_what_is_open_already_changes_nothing() -> None:
    opened = Opened({"0": [1, 2, 3, [None, 0, 7]], "1": [0, 0, 4]})
    marks = opened.marks
    for rounds, segment, places in [((1,), 2, 3), ((1,), 2, 2), ((1,), 1, 9), ((), 3, 9)]:
        opened.note("0", rounds, segment, places, [None, 0, 9])
        assert opened.marks is marks
    opened.note("1", (), 0, 4)
    assert opened.marks is marks
    assert marks == {"0": [1, 2, 3, [None, 0, 7]], "1": [0, 0, 4]}


def test_marks_of_a_part_of_the_run_elsewhere() -> None:
    opened = Opened({"0": [0, 0, 4], "1": [0, 0, 9]})
    opened.add({"0": [0, 0, 6, [None, 2, 4]], "1": [0, 0, 8], "2": [1, 0, 2]})
    assert opened.marks == {"0": [0, 0, 6, [None, 2, 4]], "1": [0, 0, 9], "2": [1, 0, 2]}
