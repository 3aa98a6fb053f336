"""`SizeLimit`: where batches of a limited size end."""

from __future__ import annotations

from collections.abc import Sequence


class SizeLimit:
    """Cuts rows, one after the other, into batches that are as large as the limit allows.

    Attributes:
        limit: the largest size of a batch: the sum over its rows or, if `padded`, rows times the largest of them.
        max_rows: the most rows of a batch; None for any number.
    """

    def __init__(self, limit: int, max_rows: int | None, *, padded: bool) -> None:
        self.limit = limit
        self.max_rows = max_rows
        self._padded = padded
        self._count = 0  # of the batch that is not complete
        self._size = 0.0  # its sum or, if `padded`, its largest row

    def cuts(self, sizes: Sequence[float]) -> list[int]:
        """The rows of the next `sizes` that begin a new batch. No row may be above the limit."""
        cuts: list[int] = []
        count, size = self._count, self._size
        for place, row_size in enumerate(sizes):
            grown = max(size, row_size) if self._padded else size + row_size
            total = grown * (count + 1) if self._padded else grown
            if count and (total > self.limit or count == self.max_rows):
                cuts.append(place)
                count, grown = 0, row_size
            count, size = count + 1, grown
        self._count, self._size = count, size
        return cuts
