"""`ParseUnits`: the cursors of parsers, with a reader that counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import DataError, Origin
from feedpipe.extensions import START, Block, Context, Cursor
from feedpipe.testing import check_operator

from ...support.core import BlockSize
from ...support.engine import bind
from ...support.examples import examples
from ...support.files import Malformed, ParseUnits, Place, Section, UnitReader
from ...support.storage import Task

PIECE_ROWS = 3


@dataclass(frozen=True)
class CountUp(ParseUnits[int]):
    """Unit n has n rows, (n, 0), (n, 1) and so on, in sections of three. Row `bad` of a unit is malformed.

    Units with `joined_rows` rows together are read at once.
    """

    kind: ClassVar[str] = "count_up"

    bad: int = -1
    joined_rows: int = 0

    def reader(self, context: Context, block_size: BlockSize) -> CountReader:
        return CountReader(self.bad, self.joined_rows)


class CountReader(UnitReader[int, Task[int]]):
    beginning: ClassVar[Place] = (0, 7)
    closed = 0

    def __init__(self, bad: int, joined_rows: int) -> None:
        self._bad = bad
        self._joined_rows = joined_rows

    def is_remote(self, unit: int) -> bool:
        return False

    def begin(self, unit: int, early: bool) -> Task[int]:
        return Task(lambda: unit)

    def joined(self, unit: int, following: Sequence[object], opened: Task[int]) -> Section | None:
        units = [unit]
        for other in following:
            assert isinstance(other, int)
            if sum(units) + other > self._joined_rows:
                break
            units.append(other)
        rows: list[object] = [(n, k) for n in units for k in range(n)]
        return Section(rows, self.beginning, None, units=len(units)) if len(units) > 1 else None

    def sections(self, unit: int, opened: Task[int], place: Place) -> Iterator[Section]:
        assert place[1] == 7
        for start in range(place[0], opened.result(), PIECE_ROWS):
            stop = min(start + PIECE_ROWS, unit)
            rows: list[object] = [(unit, k) for k in range(start, stop)]
            if start <= self._bad < stop:
                bad = Malformed(DataError("malformed"), Origin(str(unit), self._bad), None)
                yield Section(rows[: self._bad - start], (start, 7), (self._bad + 1, 7), None, bad)
            yield Section(rows, (start, 7), None if stop == unit else (stop, 7))

    def close(self) -> None:
        CountReader.closed += 1


def counted(units: list[int], bad: int = -1, joined_rows: int = 0) -> fp.Pipe[Any]:
    return fp.from_sequence(units).then(CountUp(bad, joined_rows))


def blocks(pipe: fp.Pipe[Any], at: Cursor = START) -> Iterator[Block]:
    return bind(pipe).blocks(at, Context())


def test_law():
    assert check_operator(counted([4, 0, 1, 9])) == [(unit, k) for unit in (4, 0, 1, 9) for k in range(unit)]


@given(st.lists(st.integers(0, 6), max_size=30), st.integers(0, 12))
@settings(max_examples=examples(20), deadline=None)
def test_law_of_units_that_are_read_at_once(units, joined_rows):
    got = check_operator(counted(units, joined_rows=joined_rows), samples=6)
    assert got == [(unit, k) for unit in units for k in range(unit)]


def test_a_token_is_the_cursor_of_the_unit_a_place_in_it_and_its_piece():
    tokens = {block.rows[0]: block.at.token for block in blocks(counted([4, 9])) if not block.at.skip}
    assert tokens == {
        (4, 0): [[None, 0, 0], 0, 7, [3, 3, 7]],
        (4, 3): [[None, 0, 0], 3, 7, [1]],
        (9, 0): [[None, 1, 0], 0, 7, [3, 3, 7]],
        (9, 3): [[None, 1, 0], 3, 7, [3, 6, 7]],
        (9, 6): [[None, 1, 0], 6, 7, [3]],
    }


def test_a_token_says_how_many_units_are_read_at_once():
    pipe = counted([1, 2, 3, 4, 9], joined_rows=6)
    tokens = {block.rows[0]: block.at.token for block in blocks(pipe) if not block.at.skip}
    assert tokens == {
        (1, 0): [[None, 0, 0], 0, 7, [1]],
        (2, 0): [[None, 1, 0], 0, 7, [5, [2]]],
        (4, 0): [[None, 3, 0], 0, 7, [3, 3, 7]],
        (4, 3): [[None, 3, 0], 3, 7, [1]],
        (9, 0): [[None, 4, 0], 0, 7, [3, 3, 7]],
        (9, 3): [[None, 4, 0], 3, 7, [3, 6, 7]],
        (9, 6): [[None, 4, 0], 6, 7, [3]],
    }


def test_the_end_of_a_unit_is_the_beginning_of_the_next_one():
    ends = [block.end for block in blocks(counted([3, 4])) if not block.end.skip]
    assert [end.token for end in ends] == [[[None, 1, 0], 0, 7], [[None, 1, 0], 3, 7], [[None, 2, 0], 0, 7]]
    assert [end.row for end in ends] == [3, 6, 7]
    assert list(blocks(counted([3, 4]), ends[-1])) == []


def test_a_resume_behind_the_rows_before_an_error_finds_it_again():
    pipe = counted([9], bad=5)
    parsed: list[Block] = []
    with pytest.raises(DataError, match=r"malformed\n  at .*test_parse_units\.py:"):
        parsed.extend(blocks(pipe))
    assert sum(map(len, parsed)) == 5
    assert parsed[-1].end.token == [[None, 0, 0], 3, 7, [2, 6, 7]] and parsed[-1].end.position == 5
    with pytest.raises(DataError, match="malformed"):
        next(blocks(pipe, parsed[-1].end))


def test_the_reader_is_closed_however_the_run_ends():
    before = CountReader.closed
    list(blocks(counted([4])))
    with pytest.raises(DataError):
        list(blocks(counted([4], bad=0)))
    run = blocks(counted([4]))
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert CountReader.closed == before + 3
