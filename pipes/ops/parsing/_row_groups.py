"""The row groups of Parquet files: the units of `parse_parquet`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...formats.parquet.file import ParquetFile
from ...formats.parquet.footer import ParquetFooter, read_parquet_footer
from ...formats.parquet.options import Parquet
from ...storage.file import File
from ...storage.tasks import in_threads
from ._counted_units import CountedUnits


class RowGroup(NamedTuple):
    """A handle on a row group.

    Attributes:
        file: the file it is in.
        number: its number there.
        rows: how many it has.
        first: the number in the file of the first of them.
        seal: that of the footer that says so.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int


@dataclass(frozen=True, eq=False)
class RowGroups(CountedUnits[Parquet, RowGroup]):
    """A handle for each row group of each file; the footers say which there are."""

    kind: ClassVar[str] = "row_groups"
    fields: ClassVar[tuple[str, ...]] = RowGroup._fields

    def head(self, file: File) -> ParquetFooter:
        with file.open(None) as stream:
            return read_parquet_footer(stream, file.path)

    def units(self, files: Sequence[File]) -> Iterable[Sequence[RowGroup]]:
        return in_threads(self._matching, files)

    def unit(self, file: File, *numbers: int) -> RowGroup:
        return RowGroup(file, *numbers)

    def _matching(self, file: File) -> list[RowGroup]:
        """The row groups of a file in which rows may match the filter."""
        footer = self.head(file)
        rows = footer.row_counts()
        firsts = np.cumsum([0, *rows]).tolist()
        wanted = ParquetFile(self.format, footer).matching_row_groups()
        return [RowGroup(file, k, rows[k], firsts[k], footer.seal) for k in wanted]
