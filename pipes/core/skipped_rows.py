"""Takes the rows that were skipped out of the others, and puts them back.

A list has a `Skipped` in the place of such a row. A `Rows` has one more column for them, `SKIPPED`; the other values of
such a row mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .rows import SKIPPED, BlockRows, Rows, column_names, concat, take
from .skipped import Skipped


class Parted(NamedTuple):
    """Rows without those that were skipped.

    Attributes:
        values: the rows that remain.
        places: where they stood.
        skipped: what was left out, by its place; one with a value stands before a row that remains.
        total: how many places there were.
    """

    values: BlockRows
    places: Sequence[int]
    skipped: Mapping[int, Skipped]
    total: int

    def merged(self, results: BlockRows) -> BlockRows:
        """The places up to that of the last result, with the results in those of the first rows that remain."""
        count = self.total if len(results) == len(self.places) else self.places[len(results)]
        if not self.skipped:
            return results
        if isinstance(results, list):
            merged: list[object] = [None] * count
            for place, result in zip(self.places, results, strict=False):
                merged[place] = result
            for place, skipped in self.skipped.items():
                if place < count:
                    merged[place] = skipped if skipped.is_row else skipped.before(merged[place])
            return merged
        return _merged_table(results, self, count)


def has_skipped(rows: BlockRows) -> bool:
    """Whether some of the rows were skipped."""
    if not Skipped.exist:
        return False
    if isinstance(rows, list):
        return Skipped in set(map(type, rows))
    return SKIPPED in column_names(rows)


def parted(rows: BlockRows) -> Parted:
    """The rows without those that were skipped."""
    if not has_skipped(rows):
        return Parted(rows, range(len(rows)), {}, len(rows))
    marks: list[object] = rows if isinstance(rows, list) else cast("Any", rows.columns[SKIPPED]).tolist()
    skipped = {place: mark for place, mark in enumerate(marks) if isinstance(mark, Skipped)}
    places = [place for place in range(len(rows)) if place not in skipped or not skipped[place].is_row]
    if isinstance(rows, list):
        values: BlockRows = [skipped[place].value if place in skipped else rows[place] for place in places]
    else:
        values = without_marks(cast("Rows", take(rows, np.array(places, np.int64))))
    return Parted(values, places, skipped, len(rows))


def without_marks(rows: Rows) -> Rows:
    columns = {name: column for name, column in rows.columns.items() if name != SKIPPED}
    return Rows(columns, len(rows))


def _merged_table(results: Rows, parts: Parted, count: int) -> BlockRows:
    pieces: list[BlockRows] = []
    start = 0  # of the results
    for place, skipped in sorted(parts.skipped.items()):
        if place >= count:
            break
        stop = int(np.searchsorted(parts.places, place))
        if stop > start:
            pieces.append(take(results, range(start, stop)))
        start = stop
        if skipped.is_row:
            pieces.append([skipped])
        else:
            pieces.append(_marked(cast("Rows", take(results, range(start, start + 1))), skipped))
            start += 1
    if start < len(results):
        pieces.append(take(results, range(start, len(results))))
    return concat(pieces)


def _marked(row: Rows, skipped: Skipped) -> Rows:
    later = cast("Any", row.columns[SKIPPED])[0] if SKIPPED in row.columns else None
    marks = np.array([skipped.before(None) if later is None else skipped.before(later), None], object)[:1]
    return Rows({**row.columns, SKIPPED: marks}, len(row))


def zipped(columns: Sequence[BlockRows]) -> list[object]:
    """A tuple of the rows at each place. If one of them was skipped, the whole tuple is."""
    rows = list(zip(*columns, strict=True))
    if not any(map(has_skipped, columns)):
        return cast("list[object]", rows)
    return [_zipped(row) if any(isinstance(part, Skipped) for part in row) else row for row in rows]


def _zipped(row: tuple[object, ...]) -> Skipped:
    marks = [part for part in row if isinstance(part, Skipped)]
    skips = {id(skip): skip for mark in marks for skip in mark.skips}  # branches of a fork share them
    if any(mark.is_row for mark in marks):
        return Skipped(tuple(skips.values()))
    values = tuple(part.value if isinstance(part, Skipped) else part for part in row)
    return Skipped(tuple(skips.values()), values, is_row=False)
