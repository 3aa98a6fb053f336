"""`batch` with sizes by row: against one batch at a time, resumes, ranks, shards, and wrong ramps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError
from feedpipe.testing import check_operator

from ...support.examples import examples
from ..exactness import check_elastic, check_ranks, check_resumes, through_json
from ..tables import streamed

RAMP = {0: 2, 7: 3, 8: 1, 20: 5}


def ramped(rows: Sequence[Any], sizes: dict[int, int], drop_last: bool = False) -> list[list[Any]]:
    """One batch at a time."""
    batches: list[list[Any]] = []
    row = 0
    while row < len(rows):
        size = sizes[max(edge for edge in sizes if edge <= row)]
        batches.append([*rows[row : row + size]])
        row += size
    return batches[:-1] if drop_last and row > len(rows) else batches


@st.composite
def ramps(draw: Any) -> dict[int, int]:
    edges = draw(st.lists(st.integers(1, 60), unique=True, max_size=5))
    return {edge: draw(st.integers(1, 9)) for edge in sorted([0, *edges])}


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 90), ramps(), st.booleans(), st.booleans())
def test_law(count: int, sizes: dict[int, int], drop_last: bool, is_streamed: bool) -> None:
    source = fp.from_sequence(range(count))
    pipe = (streamed(source) if is_streamed else source).batch(sizes, drop_last=drop_last)
    expected = ramped(range(count), sizes, drop_last)
    assert check_operator(pipe, samples=2) == expected
    if not is_streamed:
        assert len(pipe) == len(expected)
        places = [*fp.from_sequence(range(len(expected))).shuffle()]
        assert list(pipe.shuffle()) == [expected[place] for place in places]


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 120), ramps(), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_each_shard_has_its_part_of_the_ramp(
    count: int, sizes: dict[int, int], ranks: int, of_rank: int, drop_last: bool
) -> None:
    shards = ranks * of_rank
    pipe = streamed(fp.from_sequence(range(count))).batch(sizes, drop_last=drop_last)
    own = {-(-edge // shards): size for edge, size in sizes.items()}
    rows: list[int] = []
    for rank in range(ranks):
        loader = fp.Loader(pipe, rank=rank, world_size=ranks, shards=shards, even=None)
        batches = list(loader)
        left = {
            shard: ramped(range(len(own_rows)), own, drop_last=True)
            for shard, own_rows in _of(count, shards, rank, ranks)
        }
        full = sum(map(len, left.values()))
        assert sorted(map(len, batches[:full])) == sorted(len(batch) for one in left.values() for batch in one)
        assert len({len(batch) for batch in batches[full:-1]}) <= 1  # what shards leave over has one size
        rows += [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(count)) if not drop_last else set(rows) <= set(range(count))


def _of(count: int, shards: int, rank: int, ranks: int) -> list[tuple[int, list[int]]]:
    source = streamed(fp.from_sequence(range(count)))
    loaders = [fp.Loader(source, rank=shard, world_size=shards, shards=shards, even=None) for shard in range(shards)]
    return [(shard, list(loaders[shard])) for shard in range(rank, shards, ranks)]


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(40, 200), ramps(), st.integers(1, 3), st.booleans())
def test_lengths_are_known(count: int, sizes: dict[int, int], ranks: int, drop_last: bool) -> None:
    pipe = fp.from_sequence(range(count)).shuffle(window=5).batch(sizes, drop_last=drop_last)
    for rank in range(ranks):
        loader = fp.Loader(pipe, rank=rank, world_size=ranks, even=None)
        assert len(loader) == len(list(loader))


PIPES = {
    "indexed": fp.from_sequence(range(41)).batch(RAMP),
    "streamed": streamed(fp.from_sequence(range(83))).batch(RAMP),
    "shuffled": fp.from_sequence(range(83)).shuffle(window=7).batch(RAMP).map(list),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PIPES)
def test_resumes_ranks_and_workers(kind: str) -> None:
    check_resumes(PIPES[kind], epochs=2, every=3)
    if kind == "indexed":
        check_ranks(PIPES[kind])
    else:
        check_ranks(PIPES[kind].unbatch(), shards=8, in_turn=False)
    for taken in (1, 6, 14):
        check_elastic(PIPES[kind].unbatch(), taken)


def test_another_number_of_ranks_keeps_the_sizes() -> None:
    loader = fp.Loader(PIPES["streamed"], shards=1)
    sizes = [len(batch) for batch, _ in zip(loader, range(5), strict=False)]
    resumed = fp.Loader(PIPES["streamed"], rank=1, world_size=2, even=None)
    resumed.load_state_dict([through_json(loader.state_dict())])
    assert sizes == [2, 2, 2, 2, 1] and [len(batch) for batch in resumed][-3:-1] == [5, 5]


def test_epochs_of_steps_are_parts_of_one_ramp() -> None:
    for pipe in (fp.from_sequence(range(40)), streamed(fp.from_sequence(range(40)))):
        loader = fp.Loader(pipe.batch(RAMP), steps=4, shards=1)
        assert [[len(batch) for batch in loader] for _ in range(3)] == [[2, 2, 2, 2], [1] * 4, [1] * 4]


def test_rows_that_are_skipped_are_in_no_batch() -> None:
    def picky(row: int) -> int:
        if row % 7 == 3:
            raise ValueError(row)
        return row

    good = [row for row in range(50) if row % 7 != 3]
    pipe = streamed(fp.from_sequence(range(50))).map(picky, on_error="skip").batch(RAMP)
    assert list(pipe) == ramped(good, RAMP)
    check_resumes(pipe, every=3)


def test_what_a_user_reads(capsys: Any) -> None:
    pipe = fp.from_sequence(range(40)).batch(RAMP)
    pipe.explain()
    text = capsys.readouterr().out
    assert ".batch({0: 2, 7: 3, 8: 1, 20: 5})  20 indexed" in text
    assert "its size changes at rows 7, 8, 20 of each pass, on all ranks together" in text
    assert repr(fp.from_sequence([1]).batch({5: 2, 0: 1})).endswith(".batch({0: 1, 5: 2})")


def test_far_edges_and_large_sizes() -> None:
    rows = fp.from_sequence(range(9))
    for pipe in (rows, streamed(rows)):
        assert list(pipe.batch({0: 4, 10**30: 1})) == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
        assert list(pipe.batch({0: 1, 2: 10**30})) == [[0], [1], [*range(2, 9)]]


@pytest.mark.parametrize(
    ("size", "kind", "message"),
    [
        ({}, ArgumentError, "`size` must have the key 0, because its keys are the rows from which on sizes hold, but "),
        ({3: 1}, ArgumentError, "must have the key 0, .* but has 3"),
        ({0: 1, -2: 1}, ArgumentError, r"`size.keys\(\)` must be >= 0 but got: -2"),
        ({0: 1, 4: 0}, ArgumentError, r"`size\[4\]` must be >= 1 but got: 0"),
        ({0: 1, 1.5: 2}, ArgumentTypeError, r"`size.keys\(\)` must be an int but got: 1.5"),
        ({0: 1, 4: 2.5}, ArgumentTypeError, r"`size\[4\]` must be an int but got: 2.5"),
        (dict.fromkeys(range(2**16 + 1), 1), ArgumentError, "`size` must have at most 65,536 stages but has 65,537"),
    ],
)
def test_errors(size: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as error:
        fp.from_sequence([1]).batch(size)
    assert "test_batch_ramp.py" in str(error.value)


def test_equal_work_needs_one_size() -> None:
    with pytest.raises(ArgumentError, match="`balance` needs batches of one size"):
        fp.from_sequence([1]).batch({0: 2}, balance=int)


def test_one_worker_of_a_shard_follows_the_ramp() -> None:
    pipe = streamed(fp.from_sequence(range(200))).batch(RAMP)
    assert list(fp.Loader(pipe, service=fp.Threads(3))) == list(pipe)
