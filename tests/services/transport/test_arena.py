"""Regions of the arena never overlap and take the lowest room; when all are free, so is the whole arena."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ...support.services import PAGE_BYTES, Arena, create_shared_memory, rounded_bytes

PAGES = 64
SIZE = PAGES * PAGE_BYTES


@pytest.fixture(name="fd", scope="module")
def _fd() -> Iterator[int]:
    fd = create_shared_memory(SIZE)
    yield fd
    os.close(fd)


def test_regions_that_the_consumer_still_has(fd: int) -> None:
    arena = Arena(fd, SIZE, [(3 * PAGE_BYTES, PAGE_BYTES), (0, 1)])
    assert arena.reserve([2 * PAGE_BYTES, PAGE_BYTES]) == [PAGE_BYTES, 4 * PAGE_BYTES]
    for offset in (0, 3 * PAGE_BYTES, PAGE_BYTES, 4 * PAGE_BYTES):
        arena.free(offset)
    assert arena.reserve([PAGES * PAGE_BYTES]) == [0]


@given(st.lists(st.lists(st.integers(1, 9 * PAGE_BYTES), min_size=1, max_size=3) | st.integers(0, 50), max_size=60))
def test_regions_never_overlap(fd: int, steps: list[list[int] | int]) -> None:
    arena = Arena(fd, SIZE, [])
    taken: dict[int, int] = {}
    for step in steps:
        if isinstance(step, list):
            offsets = arena.reserve(step)
            if offsets is not None:
                taken |= zip(offsets, map(rounded_bytes, step), strict=True)
        elif taken:
            offset = list(taken)[step % len(taken)]
            arena.free(offset)
            del taken[offset]
        ends = [0]
        for offset, size in sorted(taken.items()):
            assert offset >= ends[-1]
            ends.append(offset + size)
        assert ends[-1] <= SIZE
    for offset in taken:
        arena.free(offset)
    assert arena.reserve([PAGES * PAGE_BYTES]) == [0]
