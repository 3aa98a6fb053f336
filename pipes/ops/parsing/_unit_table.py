"""All units of a run as one array, so that millions of units are not millions of Python objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.rows import Indices, index_array

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitTable:
    """A row for each unit, and a column for each of its fields; the file is given by its position in the input."""

    fields: tuple[str, ...]
    numbers: Numbers

    @staticmethod
    def of(fields: tuple[str, ...], units: Iterable[Sequence[tuple[Any, ...]]]) -> UnitTable:
        """The table of units, given as those of one file after the other."""
        rows = ((number, *unit[1:]) for number, of_file in enumerate(units) for unit in of_file)
        shape: Any = (np.int64, len(fields))
        return UnitTable(fields, np.fromiter(rows, np.dtype(shape)))

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> Numbers:
        return self.numbers[:, self.fields.index(name)]

    def digest(self) -> str:
        return hashlib.blake2b(self.numbers.tobytes(), digest_size=16).hexdigest()

    def at(self, indices: Indices) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
        """Look up units.

        Returns:
            the positions of their files in the input, each once; and for each unit the index of its file among these,
            and its other fields.
        """
        rows = self.numbers[index_array(indices)]
        files, places = np.unique(rows[:, 0], return_inverse=True)
        return files, zip(places.tolist(), rows[:, 1:].tolist(), strict=True)
