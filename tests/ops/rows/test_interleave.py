from __future__ import annotations

from itertools import islice

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, RowError
from feedpipe.testing import check_operator


def items(row):
    return [row * 100 + k for k in range(row % 5)]


def pipe_of(row):
    return fp.from_sequence(items(row)).filter(lambda item: True)


CALLS: list[int] = []


def opened(row):
    CALLS.append(row)
    return pipe_of(row)


def interleaved(rows, function, cycle, block):
    """The order of tf.data: an open item at each place; a place whose item has ended is filled at its next turn."""
    waiting = iter(rows)
    places, result, turn, idle = [None] * cycle, [], 0, 0
    while idle < cycle:
        if places[turn] is None:
            row = next(waiting, None)
            places[turn] = None if row is None else iter(function(row))
        idle = idle + 1 if places[turn] is None else 0
        for _ in range(block if places[turn] is not None else 0):
            item = next(places[turn], None)
            if item is None:
                places[turn] = None
                break
            result.append(item)
        turn = (turn + 1) % cycle
    return result


@pytest.mark.parametrize("function", [items, pipe_of, lambda row: iter(items(row))])
@pytest.mark.parametrize(("cycle", "block"), [(1, 1), (2, 1), (3, 2), (20, 3)])
def test_law(function, cycle, block):
    source = fp.from_sequence(range(13))
    for pipe in (source, source.filter(lambda row: True)):
        rows = check_operator(pipe.interleave(function, cycle=cycle, block=block), samples=8)
        assert rows == interleaved(range(13), items, cycle, block)


def test_the_order_is_that_of_tf_data():
    """The example in the documentation of `tf.data.Dataset.interleave`."""
    pipe = fp.from_sequence(range(1, 6)).interleave(lambda x: [x] * 6, cycle=2, block=4)
    expected = [*[1] * 4, *[2] * 4, *[1] * 2, *[2] * 2, *[3] * 4, *[4] * 4, *[3] * 2, *[4] * 2, *[5] * 4, *[5] * 2]
    assert list(pipe) == expected


def test_random_draws_differ_between_items_and_epochs():
    pipe = fp.from_sequence([0, 100]).interleave(lambda row: fp.from_sequence(range(row, row + 30)).shuffle(), cycle=1)
    loader = fp.Loader(pipe, shards=1)
    first, second = list(loader), list(loader)
    assert [row + 100 for row in first[:30]] != first[30:] and first != second
    assert sorted(first) == sorted(second) == [*range(30), *range(100, 130)]
    check_operator(pipe, samples=6)


def test_a_resume_runs_only_open_items_again():
    pipe = fp.from_sequence(range(40)).interleave(opened, cycle=2)
    loader = fp.Loader(pipe, shards=1)
    rows = list(loader)
    loader.set_epoch(0)
    taken = list(islice(loader, 60))
    state = loader.state_dict()
    resumed = fp.Loader(pipe, fp.InProcess(debug=True), shards=1)  # makes one row at a time
    resumed.load_state_dict(state)
    CALLS.clear()
    iterator = iter(resumed)
    assert next(iterator) == rows[60] and len(CALLS) < 20
    assert [*taken, rows[60], *iterator] == rows


def test_an_error_comes_at_its_row():
    def fails(row):
        yield row
        yield 1 // (row - 2)

    rows = []
    with pytest.raises(RowError, match=r"(?s)by zero.*from_sequence, row 3"):
        rows.extend(fp.from_sequence(range(5)).interleave(fails, cycle=2))
    assert rows == [0, 1, -1, -1, 2, 3]
    with pytest.raises(RowError, match="'int' object is not iterable"):
        list(fp.from_sequence([1]).interleave(lambda row: row, cycle=1))
    with pytest.raises(RowError, match=r"(?s)by zero.*from_sequence, row 1"):
        list(fp.from_sequence([1]).interleave(lambda row: fp.from_sequence([0]).map(lambda x: row / x), cycle=1))


def test_arguments():
    pipe = fp.from_sequence(range(3))
    with pytest.raises(ArgumentError, match="`cycle` must be >= 1 but got: 0"):
        pipe.interleave(items, cycle=0)
    with pytest.raises(ArgumentError, match="`block` must be >= 1 but got: 0"):
        pipe.interleave(items, cycle=1, block=0)
    with pytest.raises(ArgumentTypeError, match="`function` must be callable but got: 3"):
        pipe.interleave(3, cycle=1)
