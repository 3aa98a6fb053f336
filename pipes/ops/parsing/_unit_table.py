"""All units of a run as one array, so that millions of units are not millions of Python objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...core.rows import Indices, index_array

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitTable:
    """A row for each unit, and a column for each of its fields; the file is given by its position in the input."""

    fields: tuple[str, ...]
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> Numbers:
        return self.numbers[:, self.fields.index(name)]

    def digest(self) -> str:
        """A digest of the units, for states; without the length of footers, which follows from the seal."""
        columns = [number for number, name in enumerate(self.fields) if name != "footer_bytes"]
        return hashlib.blake2b(self.numbers[:, columns].tobytes(), digest_size=16).hexdigest()

    def at(self, indices: Indices) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
        """Look up units.

        Returns:
            the positions of their files in the input, each once; and for each unit the index of its file among these,
            and its other fields.
        """
        rows = self.numbers[index_array(indices)]
        files, places = np.unique(rows[:, 0], return_inverse=True)
        return files, zip(places.tolist(), rows[:, 1:].tolist(), strict=True)
