"""The units of files, such as row groups, as footers list them."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.lazy import pa
from ..core.operator import Weights
from ..core.rows import Indices, index_array

Numbers = npt.NDArray[np.int64]
UNKNOWN = -1
"""The number of rows of a unit that does not know it, such as a stream. It is the only unit of its file."""


@dataclass(frozen=True, eq=False)
class UnitTable:
    """A row for each unit, and a column for each of its fields; a file is its position in the input."""

    fields: tuple[str, ...]
    numbers: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> Numbers:
        return self.numbers[:, self.fields.index(name)]

    def weights(self) -> Weights:
        """The rows of each unit, or of neighbouring ones."""
        return Weights(self.column("rows"), are_rows=True)

    def rows(self) -> int | None:
        """The number of rows of all units; None if one of them does not know it."""
        rows = self.column("rows")
        return None if (rows < 0).any() else int(rows.sum())

    def digest(self) -> str:
        """A digest of the units, for states, without the length of footers, which follows from the seal."""
        columns = [number for number, name in enumerate(self.fields) if name != "footer_bytes"]
        return hashlib.blake2b(self.numbers[:, columns].tobytes(), digest_size=16).hexdigest()

    def part(self, files: range) -> UnitTable | None:
        """The units of some neighbouring files; None if nobody can take the table apart."""
        first, stop = np.searchsorted(self.numbers[:, 0], (files.start, files.stop))
        numbers = self.numbers[first:stop].copy()
        numbers[:, 0] -= files.start
        return UnitTable(self.fields, numbers)

    def at(self, indices: Indices) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
        """Look up units.

        Returns:
            the positions of their files in the input, each once; for each unit the index of its file among these, and
            its other fields.
        """
        return by_file(self.numbers[index_array(indices)])


def by_file(units: Numbers) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
    """Rows of a table of units, as `UnitTable.at` gives them."""
    files, places = np.unique(units[:, 0], return_inverse=True)
    return files, zip(places.tolist(), units[:, 1:].tolist(), strict=True)


class FileContents(NamedTuple):
    """The content of the footer of one file.

    Attributes:
        schema: names and types of its columns.
        seal: identifies the version of the file.
        rows: of each of its units.
        compressed: whether the columns of each unit are.
        selected: the numbers of the units that a filter leaves; None for all.
        footer_bytes: the length of the footer; 0 if it is not known.
    """

    schema: pa.Schema
    seal: int
    rows: Sequence[int]
    compressed: Sequence[bool]
    selected: Sequence[int] | None = None
    footer_bytes: int = 0


@dataclass(frozen=True, eq=False)
class FileUnits:
    """The contents of all files.

    Attributes:
        schemas: each once, in the order in which they first occur.
        schema_numbers, seals, footer_bytes, counts: of each file, the number of its schema, its seal, the length of its
            footer and the number of its units.
        rows, compressed: of each unit of each file.
        selected: the positions among all units of those that a filter leaves; None for all.
    """

    schemas: Sequence[pa.Schema]
    schema_numbers: Numbers
    seals: Numbers
    footer_bytes: Numbers
    counts: Numbers
    rows: Numbers
    compressed: Numbers
    selected: Numbers | None = None

    @staticmethod
    def of(files: Iterable[FileContents]) -> FileUnits:
        schemas: dict[bytes, tuple[int, pa.Schema]] = {}
        last: tuple[int, pa.Schema] | None = None
        numbers, seals, footers, counts, rows, compressed, selected = (array("q") for _ in range(7))
        filtered = False
        for file in files:
            if last is None or not file.schema.equals(last[1], check_metadata=True):
                last = schemas.setdefault(file.schema.serialize().to_pybytes(), (len(schemas), file.schema))
            numbers.append(last[0])
            seals.append(file.seal)
            footers.append(file.footer_bytes)
            counts.append(len(file.rows))
            filtered = filtered or file.selected is not None
            selected.extend(len(rows) + k for k in (range(len(file.rows)) if file.selected is None else file.selected))
            rows.extend(file.rows)
            compressed.extend(file.compressed)
        columns = (np.array(column, np.int64) for column in (numbers, seals, footers, counts, rows, compressed))
        units = FileUnits([schema for _, schema in schemas.values()], *columns)
        return replace(units, selected=np.array(selected, np.int64)) if filtered else units

    def __len__(self) -> int:
        return len(self.counts)

    def unit_table(self, fields: tuple[str, ...]) -> UnitTable:
        """The units that have rows, by these fields: file, number, rows, first, seal, compressed and footer_bytes."""
        chosen = np.arange(len(self.rows)) if self.selected is None else self.selected
        return UnitTable(fields, self._numbers(fields, chosen[self.rows[chosen] != 0]))

    def units_at(self, fields: tuple[str, ...], places: Numbers) -> Numbers:
        """Some of the units that have rows, by these fields, a row each."""
        return self._numbers(fields, np.flatnonzero(self.rows)[places])

    def _numbers(self, fields: tuple[str, ...], units: Numbers) -> Numbers:
        """These units among all, by these fields, a row each."""
        ends = np.cumsum(self.counts)
        files = np.searchsorted(ends, units, "right")
        begins = ends - self.counts
        before = np.append(0, np.cumsum(self.rows))
        columns = {
            "file": files,
            "number": np.where(self.rows[units] == UNKNOWN, -1, units - begins[files]),
            "rows": self.rows[units],
            "first": before[units] - before[begins[files]],
            "seal": self.seals[files],
            "compressed": self.compressed[units],
            "footer_bytes": self.footer_bytes[files],
        }
        return np.stack([columns[name] for name in fields], axis=1)

    def contents(self, file: int) -> FileContents:
        """What the footer of a file says."""
        begin = int(self.counts[:file].sum())
        units = slice(begin, begin + int(self.counts[file]))
        return FileContents(
            self.schemas[self.schema_numbers[file]],
            int(self.seals[file]),
            self.rows[units].tolist(),
            self.compressed[units].astype(bool).tolist(),
            footer_bytes=int(self.footer_bytes[file]),
        )
