"""Which rows shards have, at any positions; the order of shuffled rows never changes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.extensions import Context

from ..support.core import Taken
from ..support.engine import Stage, bind, resolve
from ..support.plan import (
    NeighboursShard,
    PermutedShard,
    PlacedShard,
    RemainingShard,
)

counts = st.integers(0, 400)
parts = st.builds(slice, st.integers(0, 60), st.integers(0, 60), st.integers(1, 4))


def shards_of(count: int, operators: list[PlacedShard]) -> list[Stage]:
    source = fp.from_sequence(range(count))
    return [bind(resolve(source.then(operator))) for operator in operators]


@given(counts, st.integers(1, 5), st.integers(0, 3), parts)
@example(100, 2, 2, slice(48, 49, 1))  # after the ranges that shards take in turn
@example(100, 2, 2, slice(48, 50, 2))
@example(130_000, 2, 3, slice(10, 300, 2))  # ranges that are read as slices
@example(130_000, 2, 3, slice(10, 300, 1))
def test_positions_in_any_order_give_the_same_rows(count: int, shards: int, kind: int, part: slice) -> None:
    beyond = (range(5, 9), range(12, 20, 3))
    makers = [
        lambda shard: RemainingShard(shards, shard, Taken(3)),
        lambda shard: RemainingShard(shards, shard, Taken(9, beyond)),
        lambda shard: NeighboursShard(shards, shard),
        lambda shard: PermutedShard(shards, shard),
    ]
    rows: list[int] = []
    for stage in shards_of(max(count, 20), [makers[kind](shard) for shard in range(shards)]):
        assert stage.length is not None
        own = list(stage.rows(range(stage.length), Context()))
        assert len(own) == stage.length
        assert not len(stage.rows(range(0), Context()))
        positions = range(stage.length)[part]
        assert list(stage.rows(positions, Context())) == own[part]
        assert list(stage.rows(np.array(positions, np.int64), Context())) == own[part]
        for row, position in zip(own[part], positions, strict=True):
            ((_, place, _),) = stage.op.trace(stage, position, Context())
            assert place == row
        rows += own
    first = [3, 2, 0, 0][kind]
    taken = [row for one in beyond for row in one] if kind == 1 else []
    assert sorted(rows) == [row for row in range(first, max(count, 20)) if row not in taken]


@given(st.lists(st.sampled_from(range(30)), unique=True), st.integers(0, 30))
def test_what_is_left_if_some_are_taken_out_of_turn(numbers: list[int], count: int) -> None:
    first = next(number for number in range(31) if number not in numbers)
    taken = Taken.of(0, (range(number, number + 1) for number in sorted(numbers)))
    assert taken.first == first and taken.total == len(numbers)
    left, behind = taken.left()
    expected = [number for number in range(first, 80) if number not in numbers]
    assert [*left.tolist(), *range(behind, 80)] == expected
    later = taken.after(count)
    left, behind = later.left()
    assert later.total == taken.total + count
    assert [*left.tolist(), *range(behind, 80)] == expected[count:]
    assert later == taken.then(Taken(count))


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.integers(1, 4), st.integers(0, 60))
def test_taken_rows_of_those_that_are_left(before: set[int], then: set[int], size: int, length: int) -> None:
    first, second = (Taken.of(0, (range(n, n + 1) for n in sorted(numbers))) for numbers in (before, then))
    left = [number for number in range(100) if number not in before]
    both = before | {left[number] for number in then}
    assert numbers_of(first.then(second)) == both
    assert numbers_of(first.runs(lambda row: row * size)) == {
        number * size + place for number in before for place in range(size)
    }
    assert numbers_of(first.between(5, 5 + length)) == {n - 5 for n in before if 5 <= n < 5 + length}
    assert Taken.of_plain(json.loads(json.dumps(first.plain))) == first


def numbers_of(taken: Taken) -> set[int]:
    return {*range(taken.first), *(number for rows in taken.beyond for number in rows)}


@pytest.mark.parametrize(("rows", "size"), [(3, 1), (2047, 1), (2048, 2), (2**20, 1024), (2**22, 1024)])
def test_the_length_of_ranges_never_changes(rows: int, size: int) -> None:
    """Another length would move the rows of a job that resumes."""
    (stage,) = shards_of(rows, [PermutedShard(1, 0)])
    own = np.array(stage.rows(range(min(rows, 8192)), Context()))
    breaks = np.flatnonzero(np.diff(own) != 1) + 1
    assert np.gcd.reduce(breaks) == size
