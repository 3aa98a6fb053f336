"""One Parquet file: how its columns become those of the first file, and its rows, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...core.rows import Rows
from ...errors import DataError
from ..tables.arrow import as_column, broken, failures
from .filter import mask
from .footer import Footer
from .options import Parquet

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 2**26
"""Bytes of a row group that are fetched at once where a request costs more than bytes do; more is read bit by bit."""


class Width:
    """How many rows make a batch: learned from the rows that were read, as the bytes in a file say little of it."""

    FIRST, MOST = 256, 2**17  # rows
    BYTES = 2**22

    def __init__(self) -> None:
        self.known = False
        self._bytes = 1.0

    def rows(self) -> int:
        return int(min(self.MOST, max(1, self.BYTES / self._bytes))) if self.known else self.FIRST

    def learn(self, batch: pa.RecordBatch) -> None:
        self.known = True
        self._bytes = max(self._bytes, batch.nbytes / max(1, batch.num_rows))


class Piece(NamedTuple):
    """What became of some rows of a row group.

    Attributes:
        rows: those that match the filter.
        numbers: of these, the numbers in the file, from 0.
        stop: how many rows of the row group have been read with these.
    """

    rows: Rows
    numbers: npt.NDArray[np.int64] | range
    stop: int


class ParquetFile:
    """A file to be read, given what is fixed for all.

    Raises:
        DataError: its columns are not those of the first file.
    """

    def __init__(self, options: Parquet, footer: Footer) -> None:
        self.footer = footer
        self._options = options
        self._fixed = options.known(footer.name)
        self._name = footer.name
        has = self._fixed.has(footer)
        self._read = None if self._fixed.read is None else footer.knows(self._fixed.read)
        self._constants = self._fixed.constants(footer.name, has)

    def matching(self) -> Sequence[int]:
        """The row groups that may have rows for the filter."""
        found: Sequence[int] | None = None
        if self._options.filter is not None:
            types = {name: self._fixed.types[name] for name in self._fixed.needed}
            constants = {name: value for name, value in self._constants.items() if name in types}
            found = self.footer.matching(self._options.filter, types, constants)
        return range(self.footer.metadata.num_row_groups) if found is None else found

    def parts(self, group: int) -> list[tuple[int, int]] | None:
        """Where the bytes of a row group begin and end that are wanted; None where these are too many to hold."""
        parts = self.footer.parts(group, self._read)
        return parts if sum(end - begin for begin, end in parts) <= AT_ONCE else None

    def pieces(
        self, stream: object, group: int, first: int, inside: int, width: Width, *, buffer: int, threads: bool
    ) -> Iterator[Piece]:
        """The rows of a row group without the first `inside`.

        Args:
            stream: the file, as Arrow reads it.
            group: the number of the row group.
            first: the number in the file of its first row.
            inside: rows of it to leave out.
            width: how many rows to read at a time.
            buffer: how many bytes of a column to read at a time; 0 for all of a row group.
            threads: whether Arrow may use its own.

        Raises:
            SourceError, DataError: the rows cannot be read; those before come first.
        """
        place, expected = 0, self.footer.metadata.row_group(group).num_rows
        while True:
            learning = not width.known
            for batch in self._batches(stream, group, width.rows(), buffer, threads=threads):
                width.learn(batch)
                start, stop = place, place + batch.num_rows
                place = stop
                if stop > inside:
                    cut = max(0, inside - start)
                    made = [self._piece(batch.slice(cut), first + start + cut, stop)]
                    del batch  # Arrow then writes the next one into memory that is in the cache: 20 % of the time
                    yield made.pop()
                if learning:
                    break
            if not (learning and 0 < place < expected):
                break
            inside, place = max(inside, place), 0  # once more, with batches of the size now known
        if place != expected:
            raise DataError(
                f"{self._name}, row group {group}, should have {expected} rows and has {place}: it is damaged"
            )

    def _batches(
        self, stream: object, group: int, size: int, buffer: int, *, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            # Not mapped into memory: that is no faster, and kills the process where a file is cut short meanwhile.
            file = parquet.ParquetFile(
                cast("Any", stream),
                metadata=self.footer.metadata,
                pre_buffer=False,
                buffer_size=buffer,
                page_checksum_verification=True,
            )
            several = threads and pa.cpu_count() > 1  # one alone would do the same work, but into another core's cache
            batches = file.iter_batches(size, row_groups=[group], columns=self._read, use_threads=several)
            while (batch := next(batches, None)) is not None:
                batch.validate(full=True)  # Arrow takes text for UTF-8 unseen
                made = [batch]
                del batch
                yield made.pop()
        except failures() as error:
            raise broken(error, f"{self._name}, row group {group},") from error

    def _piece(self, batch: pa.RecordBatch, first: int, stop: int) -> Piece:
        """The rows of a batch that match the filter; `first` is the number in the file of its first row."""
        import pyarrow as pa

        fixed, length = self._fixed, batch.num_rows
        arrays: dict[str, Any] = {}
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            arrays[name] = fixed.cast(array, name, self._name)
        for name, value in self._constants.items():
            arrays[name] = pa.repeat(value, length)
        numbers: npt.NDArray[np.int64] | range = range(first, first + length)
        if self._options.filter is not None:
            kept = mask(self._options.filter, {n: arrays[n] for n in fixed.needed} or arrays)
            if not kept.all():
                chosen = np.flatnonzero(kept)
                arrays = {name: arrays[name].take(chosen) for name in fixed.names}
                numbers, length = chosen + first, len(chosen)
        columns = {name: as_column(arrays[name]) for name in fixed.names}
        return Piece(Rows({**columns, **self._options.lineage.of(self._name, numbers)}, length), numbers, stop)
