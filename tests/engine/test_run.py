"""`elements`: an iterator over a pipe, which ends, fails and is dropped as a user expects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import feedpipe as fp
from feedpipe.errors import LoaderError, RowError

from ..support.core import end_dropped


def test_an_end_stays_an_end() -> None:
    iterator = iter(fp.from_sequence(range(3)))
    assert [next(iterator, None) for _ in range(6)] == [0, 1, 2, None, None, None]


def test_a_failure_comes_again() -> None:
    iterator = iter(fp.from_sequence(range(9)).map(lambda row: 1 // (row - 3)))
    assert [next(iterator) for _ in range(3)] == [-1, -1, -1]
    errors = []
    for _ in range(3):
        with pytest.raises(RowError) as caught:
            next(iterator)
        errors.append(caught.value)
    assert errors[0] is errors[1] is errors[2]


def test_a_run_that_was_interrupted_never_ends_in_silence() -> None:
    def interrupt(row: int) -> int:
        if row == 3:
            raise KeyboardInterrupt
        return row

    iterator = iter(fp.from_sequence(range(9)).map(interrupt))
    with pytest.raises(KeyboardInterrupt):
        list(iterator)
    for _ in range(3):
        with pytest.raises(LoaderError, match="KeyboardInterrupt has ended this run"):
            next(iterator)


def test_an_iterator_that_is_dropped_ends_its_run() -> None:
    ended = []

    def rows() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            ended.append(True)

    iterator = iter(fp.from_iterable(rows))
    assert next(iterator) == 0
    del iterator
    end_dropped()
    assert ended == [True]
