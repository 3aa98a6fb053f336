"""Regions of the arena never overlap, are found lowest first, and all of it is free again once they are."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedpipe.services.transport.arena import NOTE, PAGE, Arena, rounded
from feedpipe.services.transport.shared_memory import shared_memory

PAGES = 64
SIZE = NOTE + PAGES * PAGE


@pytest.fixture(name="fd", scope="module")
def _fd() -> Iterator[int]:
    fd = shared_memory(SIZE)
    yield fd
    os.close(fd)


def test_one_after_the_other_and_the_lowest_first(fd: int) -> None:
    arena = Arena(fd, SIZE, [])
    assert arena.reserve([1, 2 * PAGE, PAGE]) == [NOTE, NOTE + PAGE, NOTE + 3 * PAGE]
    arena.free(NOTE + PAGE)
    assert arena.reserve([3 * PAGE, PAGE]) == [NOTE + 4 * PAGE, NOTE + PAGE]


def test_all_or_nothing(fd: int) -> None:
    arena = Arena(fd, SIZE, [])
    (first,) = arena.reserve([PAGE]) or ()
    assert arena.reserve([PAGE] * PAGES) is None
    assert arena.reserve([PAGE] * (PAGES - 1)) is not None
    assert arena.reserve([PAGE]) is None
    arena.free(first)
    assert arena.reserve([PAGE]) == [first]


def test_regions_that_are_held_already(fd: int) -> None:
    arena = Arena(fd, SIZE, [(NOTE + 3 * PAGE, PAGE), (NOTE, 1)])
    assert arena.reserve([2 * PAGE, PAGE]) == [NOTE + PAGE, NOTE + 4 * PAGE]
    for offset in (NOTE, NOTE + 3 * PAGE, NOTE + PAGE, NOTE + 4 * PAGE):
        arena.free(offset)
    assert arena.reserve([PAGES * PAGE]) == [NOTE]


@given(st.lists(st.lists(st.integers(1, 9 * PAGE), min_size=1, max_size=3) | st.integers(0, 50), max_size=60))
def test_never_one_over_the_other(fd: int, steps: list[list[int] | int]) -> None:
    arena = Arena(fd, SIZE, [])
    taken: dict[int, int] = {}
    for step in steps:
        if isinstance(step, list):
            taken |= zip(arena.reserve(step) or (), map(rounded, step))  # noqa: B905  # of nothing, where there is no room
        elif taken:
            offset = list(taken)[step % len(taken)]
            arena.free(offset)
            del taken[offset]
        ends = [NOTE]
        for offset, size in sorted(taken.items()):
            assert offset >= ends[-1]
            ends.append(offset + size)
        assert ends[-1] <= SIZE
    for offset in taken:
        arena.free(offset)
    assert arena.reserve([PAGES * PAGE]) == [NOTE]
