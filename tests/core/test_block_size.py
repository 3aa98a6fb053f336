"""How many rows the engine puts into a block, on a clock that the tests set."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from feedpipe.extensions import Rows

from ..support.core import AdaptiveBlockSize, Clock


class Time(Clock):
    seconds = 0.0

    def now(self) -> float:
        return self.seconds


def sizes(seconds: Callable[[int], float], rows: int) -> Iterator[int]:
    """The sizes of blocks of `rows` rows in all, if `seconds(n)` is what a block of n rows takes."""
    time = Time()
    block_size = AdaptiveBlockSize(time)
    made = 0
    while made < rows:
        size = block_size.rows()
        block_size.produced([0] * size)
        time.seconds += seconds(size)
        made += size
        yield size


@pytest.mark.parametrize(
    ("seconds_of_a_row", "mean"), [(1e-7, (2000, 8192)), (1e-4, (20, 80)), (5e-3, (1, 2)), (1.0, (1, 1.2))]
)
def test_a_slow_function_gets_short_blocks(seconds_of_a_row: float, mean: tuple[float, float]) -> None:
    blocks = list(sizes(lambda n: n * seconds_of_a_row, 100_000 if seconds_of_a_row < 1e-3 else 1000))
    assert blocks[0] == 1
    assert mean[0] <= np.mean(blocks) <= mean[1]


@pytest.mark.parametrize("seconds_of_a_block", [0.001, 0.004, 0.05])
def test_a_block_that_takes_as_long_with_fewer_rows_does_not_shrink(seconds_of_a_block: float) -> None:
    """As with thousands of columns, or a remote dataset: rows must not take longer because their blocks are short."""
    made = 0

    def seconds(size: int) -> float:
        nonlocal made
        made += size
        others = made // 700 - (made - size) // 700  # such as batches that are collated meanwhile
        return seconds_of_a_block + 1e-4 * size + 0.02 * others

    blocks = list(sizes(seconds, 50_000))
    assert len(blocks) * seconds_of_a_block < 2 * 50_000 * 1e-4


def test_bytes_limit_a_block_and_more_columns_allow_more() -> None:
    def rows_of(columns: int, bytes_of_a_row: int) -> int:
        block_size = AdaptiveBlockSize(Time())
        size = 0
        for _ in range(20):
            size = block_size.rows()
            values = np.zeros((size, bytes_of_a_row // columns), np.uint8)
            block_size.produced(Rows({str(k): values for k in range(columns)}))
        return size

    assert rows_of(1, 2**10) == 2**10 + 4
    assert rows_of(1000, 8000) == (2**20 + 1000 * 2**12) // 8000
