"""`Taken`: rows of an indexed input that are taken, whatever their order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .cursor import Json

Numbers = npt.NDArray[np.int64]


class Taken(NamedTuple):
    """Rows of an indexed input that are taken: all before some row, and perhaps some after it.

    Attributes:
        total: how many are taken, those of `beyond` included.
        beyond: those that are taken although one before them is not.
    """

    total: int = 0
    beyond: tuple[range, ...] = ()

    @staticmethod
    def of(first: int, ranges: Iterable[range]) -> Taken:
        """All rows before row `first`, and those in `ranges`."""
        parts = [part for part in ranges if part]
        taken = Taken(first + sum(map(len, parts)), tuple(parts))
        left, after = taken.left()
        stop = int(left[0]) if len(left) else after
        rest = (part[len(range(part.start, min(stop, part.stop), part.step)) :] for part in parts)
        return taken._replace(beyond=tuple(part for part in rest if part))

    @property
    def first(self) -> int:
        """The first row that is left."""
        return self.total - sum(map(len, self.beyond))

    def left(self) -> tuple[Numbers, int]:
        """The rows that are left before the last of `beyond`, and the first row behind it."""
        first = self.first
        stop = max((rows[-1] + 1 for rows in self.beyond), default=first)
        left = np.ones(stop - first, np.bool_)
        for rows in self.beyond:
            left[rows.start - first : rows.stop - first : rows.step] = False
        return np.flatnonzero(left) + first, stop

    def after(self, count: int) -> Taken:
        """These, and the first `count` of the rows that are left."""
        left, _ = self.left()
        if count >= len(left):
            return Taken(self.total + count)
        first = int(left[count])
        later = (rows[bisect_left(rows, first) :] for rows in self.beyond)
        return Taken(self.total + count, tuple(rows for rows in later if rows))

    def rows_left(self, numbers: range) -> list[range]:
        """The rows with these numbers among those that are left."""
        left, after = self.left()
        within = left[numbers.start : numbers.stop : numbers.step]
        rest = numbers[len(within) :]
        shift = after - len(left)
        return evenly_spaced(within) + ([range(rest.start + shift, rest.stop + shift, rest.step)] if rest else [])

    def then(self, later: Taken) -> Taken:
        """These, and `later` of the rows that are left."""
        if not self.beyond:  # the rows that are left are neighbours
            moved = tuple(range(r.start + self.total, r.stop + self.total, r.step) for r in later.beyond)
            return Taken(self.total + later.total, moved)
        so_far = self.after(later.first)
        return Taken.of(so_far.first, [*so_far.beyond, *(r for part in later.beyond for r in self.rows_left(part))])

    def runs(self, begin: Callable[[int], int]) -> Taken:
        """The same, if each row is a run of rows that begins at a row, and ends where the next one begins."""
        ranges = (range(begin(row), begin(row + 1)) for rows in self.beyond for row in rows)
        return Taken.of(begin(self.first), ranges)

    def between(self, start: int, stop: int) -> Taken:
        """Those of the rows from `start` to `stop`, counted from `start`."""
        parts = (rows[bisect_left(rows, start) : bisect_left(rows, stop)] for rows in self.beyond)
        ranges = [range(rows.start - start, rows.stop - start, rows.step) for rows in parts]
        return Taken.of(min(max(0, self.first - start), stop - start), ranges)

    @property
    def plain(self) -> Json:
        """The rows as JSON."""
        return [self.total, [[rows.start, rows.stop, rows.step] for rows in self.beyond]]

    @staticmethod
    def of_plain(plain: Json) -> Taken:
        """The rows that `plain` was made of; None is none."""
        if plain is None:
            return Taken()
        count, beyond = cast("Sequence[Any]", plain)
        return Taken(count, tuple(range(*rows) for rows in beyond))


def evenly_spaced(numbers: Numbers) -> list[range]:
    """Increasing numbers as ranges."""
    ends = [*(np.flatnonzero(np.diff(numbers, 2)) + 2).tolist(), len(numbers)]  # after the last one of a spacing
    runs = [numbers[start:end].tolist() for start, end in pairwise([0, *ends])]
    return [range(run[0], run[-1] + 1, run[1] - run[0] if len(run) > 1 else 1) for run in runs if run]
