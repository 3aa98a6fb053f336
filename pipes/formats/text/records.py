"""Parses the records around malformed ones, and finds those that are malformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...core.rows import BlockRows
from ...errors import DataError
from .chunks import Chunk, ParsedPart


def parse_parts(
    chunk: Chunk,
    read: Callable[[bytes], BlockRows],
    ends: Callable[[bytes], list[int]],
    explain: Callable[[Chunk], DataError],
) -> Iterator[ParsedPart]:
    """Parse a chunk all at once, or if that fails in smaller and smaller parts.

    Args:
        chunk: of records that do not depend on each other.
        read: makes the rows of some bytes; raises a `ValueError` if it cannot.
        ends: finds where each record ends.
        explain: the error of a record that cannot be read.
    """
    parts = [chunk]
    while parts:
        part = parts.pop()
        try:
            rows = read(part.data)
        except ValueError:  # Arrow's ArrowInvalid is one
            bounds = ends(part.data)
            if len(bounds) == 1:
                yield ParsedPart([], part, explain(part))
            else:
                middle = bounds[len(bounds) // 2 - 1]
                parts += [part.slice(middle, len(part.data)), part.slice(0, middle)]
        else:
            yield ParsedPart(rows, part)


def first_failing(ends: list[int], read: Callable[[int], object]) -> int:
    """Find the first record that cannot be read, given that all together cannot.

    Args:
        ends: where each record ends.
        read: reads the bytes up to an end; raises a `ValueError` if it cannot.
    """
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            read(ends[middle])
            low = middle + 1
        except ValueError:  # Arrow's ArrowInvalid is one
            high = middle
    return low
