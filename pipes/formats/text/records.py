"""Parses the records around malformed ones, and finds those that are malformed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...core.rows import BlockRows, part_of
from ...errors import DataError
from .chunks import Chunk, ParsedPart


class FoundErrors(NamedTuple):
    """The malformed ones of some records.

    Attributes:
        rows: the numbers of all records that are not empty lines.
        errors: makes the error of a malformed record, by the number of the record.
    """

    rows: Sequence[int]
    errors: Mapping[int, Callable[[Chunk], DataError]]


def parse_parts(
    chunk: Chunk,
    read: Callable[[bytes], BlockRows],
    ends: Callable[[bytes], list[int]],
    find_errors: Callable[[bytes, list[int]], FoundErrors | None],
    explain: Callable[[Chunk], DataError],
) -> Iterator[ParsedPart]:
    """Parse a chunk all at once, or if that fails in parts around malformed records.

    Args:
        chunk: of records that do not depend on each other.
        read: makes the rows of some bytes; raises a `ValueError` if it cannot.
        ends: finds where each record ends.
        find_errors: finds the malformed records of some bytes, given where each record ends. If it gives None, or if
            the other records cannot be read, the malformed ones are found by halving.
        explain: the error of a record that cannot be read.
    """
    try:
        rows = read(chunk.data)
    except ValueError:  # Arrow's ArrowInvalid is one
        bounds = ends(chunk.data)
        found = find_errors(chunk.data, bounds) if len(bounds) > 1 else None
        parts = None if found is None else _parse_around(chunk, read, bounds, found)
        yield from _parse_halves(chunk, read, ends, explain) if parts is None else parts
    else:
        yield ParsedPart(rows, chunk)


def _parse_around(
    chunk: Chunk, read: Callable[[bytes], BlockRows], ends: list[int], found: FoundErrors
) -> list[ParsedPart] | None:
    """The parts between malformed records, which are read together; None if they cannot be read."""
    records = [0]  # the number of the first record of each part
    for number in sorted(found.errors):
        records += [number, number + 1]
    records = sorted({*records} - {len(ends)})
    starts = [0, *ends]
    parts = chunk.cut(starts[number] for number in records[1:])
    well_formed = [part.data for number, part in zip(records, parts, strict=True) if number not in found.errors]
    try:
        rows = read(b"".join(well_formed)) if well_formed else []
    except ValueError:
        return None
    if len(rows) != len(found.rows) - len(found.errors):
        return None
    parsed: list[ParsedPart] = []
    first = 0
    for (number, stop), part in zip(pairwise([*records, len(ends)]), parts, strict=True):
        if (explain := found.errors.get(number)) is not None:
            parsed.append(ParsedPart([], part, explain(part)))
            continue
        count = bisect_left(found.rows, stop) - bisect_left(found.rows, number)
        parsed.append(ParsedPart(part_of(rows, range(first, first + count)), part))
        first += count
    return parsed


def _parse_halves(
    chunk: Chunk,
    read: Callable[[bytes], BlockRows],
    ends: Callable[[bytes], list[int]],
    explain: Callable[[Chunk], DataError],
) -> Iterator[ParsedPart]:
    """Parse a chunk that cannot be read at once in smaller and smaller parts."""
    parts = [chunk]
    while parts:
        part = parts.pop()
        try:
            rows = read(part.data)
        except ValueError:
            bounds = ends(part.data)
            if len(bounds) == 1:
                yield ParsedPart([], part, explain(part))
            else:
                parts += reversed(part.cut([bounds[len(bounds) // 2 - 1]]))
        else:
            yield ParsedPart(rows, part)


def all_failing(
    start: int,
    stop: int,
    read: Callable[[int, int], object],
    named: Callable[[ValueError, int], int | None] = lambda error, start: None,
) -> list[int]:
    """Find all items that cannot be read. Whether one can be read must not depend on the others.

    Args:
        start, stop: the numbers of the items.
        read: reads the items from one number up to another; raises a `ValueError` if it cannot.
        named: the number of the item that such an error names, if it does; the items before it can then be read. Its
            second argument is the number of the first item.
    """
    failing: list[int] = []
    ranges = [(start, stop)] if stop > start else []
    while ranges:
        start, stop = ranges.pop()
        try:
            read(start, stop)
        except ValueError as error:  # Arrow's ArrowInvalid is one
            item = start if stop == start + 1 else named(error, start)
            if item is None:
                middle = (start + stop) // 2
                ranges += [(middle, stop), (start, middle)]
                continue
            failing.append(item)
            if item + 1 < stop:
                ranges.append((item + 1, stop))
    return failing


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
