"""Which units, and which parts of units, each shard reads."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..support.core import RowShare, fill_unknown
from ..support.plan import Pieces, divide, step_of

weights = st.one_of(
    st.lists(st.integers(0, 10), max_size=60),
    st.lists(st.integers(0, 10**15), max_size=60),
    st.lists(st.integers(300_000, 500_000), max_size=60),
    st.builds(lambda count, weight: [weight] * count, st.integers(0, 60), st.integers(0, 9)),
).map(lambda values: np.array(values, np.int64))


def parts_of(pieces: Pieces, units: int) -> dict[int, list[tuple[int, int, int]]]:
    """The parts of each unit, in order: first, stop, slots."""
    parts = {place: [(0, 1, 1)] for place in range(pieces.rounds * pieces.shards)}
    columns = (pieces.places, pieces.first, pieces.stop, pieces.slots)
    for place, *part in zip(*(column.tolist() for column in columns), strict=True):
        parts.setdefault(place, []).append(tuple(part))
    return {place: sorted(parts.get(place, [])) for place in range(units)}


def test_a_division_stays_as_it_is():
    """A state holds places among the pieces, so a division that changes needs another version of states."""
    uneven = [number * 7919 % 1009 for number in range(150)]
    forms = [
        uneven,
        [0, *uneven, 10_000],
        uneven[:5],
        [1, 2, 2],
        [3] * 85,
        [3] * 1000,
        [10**13 + number * 3 for number in uneven],
    ]
    cases = [*itertools.product(forms, [1, 2, 3, 7, 16, 63, 72]), ([10**9, 10**8, 5], 10_000)]
    digest = hashlib.blake2b(digest_size=8)
    for (form, count), any_order, near in itertools.product(cases, [False, True], [10, 64]):
        pieces = divide(np.array(form), count, math.gcd(count, 4), any_order=any_order, near=near)
        for numbers in (*pieces, pieces.shares(slice(50)), pieces.rows(np.array(form) % 1009)):
            digest.update(np.asarray(numbers).astype("<i8").tobytes())
    assert digest.hexdigest() == "a32d0f933085a44d"


@given(weights, st.integers(1, 96), st.booleans(), st.sampled_from([10, 64]))
def test_each_slot_of_each_unit_is_read_once(weights, shards, any_order, near):
    pieces = divide(weights, shards, 1, any_order=any_order, near=near)
    for parts in parts_of(pieces, len(weights)).values():
        assert parts[0][0] == 0 and parts[-1][1] == parts[-1][2]
        assert len({slots for _, _, slots in parts}) == 1
        assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))
        assert all(first < stop for first, stop, _ in parts)


@given(weights, st.integers(1, 96))
def test_in_the_order_of_the_source_units_rise_in_each_shard(weights, shards):
    pieces = divide(weights, shards, 1, any_order=False, near=64)
    for shard in range(shards):
        places = pieces.of_shard(shard).places
        assert (np.diff(places) > 0).all()
        assert not len(places) or places[0] >= pieces.rounds * shards


@given(st.lists(st.integers(30, 50), min_size=100, max_size=200), st.integers(2, 12))
def test_in_the_order_of_the_source_shards_move_together(weights, shards):
    pieces = divide(np.array([*weights, 51]), shards, 1, any_order=False, near=64)
    owners = np.repeat(np.arange(shards), np.diff(pieces.starts))
    loads = np.zeros(shards)
    for place, shard in sorted(zip(pieces.places.tolist(), owners.tolist(), strict=True))[:80]:
        loads[shard] += weights[place]
        assert loads.max() - loads.min() <= 50


@given(weights, st.booleans())
def test_one_shard_reads_whole_units_in_order(weights, any_order):
    pieces = divide(weights, 1, 1, any_order=any_order, near=64)
    places = [*range(pieces.rounds), *pieces.places.tolist()]
    assert places == list(range(len(weights))) and (pieces.slots == 1).all()


@given(st.integers(1, 400), st.integers(1, 12), st.integers(1, 8), st.integers(0, 2**32), st.booleans())
def test_no_rank_and_no_shard_has_much_more_than_the_mean(units, ranks, of_rank, seed, any_order):
    shards = ranks * of_rank
    rows = (np.random.default_rng(seed).pareto(1, units) * 1000 + 1).astype(np.int64)
    rows = rows * -(-3000 * shards // int(rows.sum()))
    lengths = divide(rows, shards, ranks, any_order=any_order, near=64).lengths(rows)
    mean = rows.sum() / shards
    assert lengths.sum() == rows.sum()
    assert lengths.max() <= (1.13 if any_order and of_rank > 1 else 1.04) * mean
    assert lengths.reshape(-1, ranks).sum(0).max() <= (of_rank + 0.04 * (1 if any_order else of_rank)) * mean


@given(st.integers(1, 3), st.integers(2, 8), st.integers(1, 4_000), st.integers(0, 2**32))
def test_shards_of_a_rank_have_whole_units_if_these_differ_by_a_tenth(rounds, shards, last, seed):
    alike = [4_000] * (rounds * shards)
    alike[seed % len(alike)] = last
    for rows in (alike, np.random.default_rng(seed).integers(3_850, 4_150, rounds * shards)):
        pieces = divide(np.array(rows), shards, 1, any_order=True, near=64)
        too_large = 4_000 * shards * rounds > 1.1 * sum(rows)
        assert too_large or (pieces.slots == 1).all()


@given(weights, st.integers(1, 96), st.booleans())
def test_lengths_are_those_of_the_rows_of_the_pieces(rows, shards, any_order):
    rows = rows % 1000
    pieces = divide(rows, shards, 1, any_order=any_order, near=64)
    lengths = np.zeros(shards, np.int64)
    for shard in range(shards):
        table = pieces.of_shard(shard)
        counts = [share.count(int(rows[place])) for place, share in zip(table.places, table.shares(), strict=True)]
        assert table.lengths(rows).tolist() == [sum(counts)]
        lengths[shard] = rows[: pieces.rounds * shards][shard::shards].sum() + sum(counts)
    assert pieces.lengths(rows).tolist() == lengths.tolist()


def test_neighbours_on_the_line_go_to_one_rank():
    pieces = divide(np.array([10**6 + k for k in range(64)]), 32, 4, any_order=True, near=64)
    ranks = [{shard % 4 for shard in range(32) if place in pieces.of_shard(shard).places} for place in range(64)]
    assert sum(len(of_unit) > 1 for of_unit in ranks) <= 3


def test_unknown_weights_count_as_the_mean():
    assert fill_unknown(np.array([0, -1, 8])).tolist() == [0, 4, 8]
    assert fill_unknown(np.array([4, -1, 8])).tolist() == [4, 6, 8]
    assert fill_unknown(np.array([-1, -1])).tolist() == [1, 1]


@given(st.integers(1, 300), st.data())
def test_a_share_counts_and_finds_its_rows(slots, data):
    first = data.draw(st.integers(0, slots - 1))
    stop = data.draw(st.integers(first + 1, slots))
    share = RowShare(first, stop, slots, data.draw(st.sampled_from([1, step_of(slots)])))
    start, count = data.draw(st.integers(0, 500)), data.draw(st.integers(0, 700))
    rows = [row for row in range(start + count) if first <= row * share.step % slots < stop]
    assert share.count(start + count) == len(rows)
    assert [share.position(index) for index in range(len(rows))] == rows
    assert [start + int(place) for place in share.places(start, count)] == [row for row in rows if row >= start]


@pytest.mark.parametrize(("slots", "rows"), [(2, 2), (128, 8), (384, 12)])
def test_a_few_rows_are_spread_over_the_shares(slots, rows):
    half = RowShare(0, slots // 2, slots, step_of(slots))
    assert abs(half.count(rows) - rows / 2) <= 1
