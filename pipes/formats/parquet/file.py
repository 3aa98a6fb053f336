"""`ParquetFile`: reads a Parquet file a row group at a time, with the columns fixed for all files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...core.rows import Rows, RowSignature, sharing
from ...errors import DataError, FeedpipeError
from ..tables.arrow import arrow_errors, read_error, to_column
from ..tables.expressions import matching_rows
from .footer import ParquetFooter
from .options import Parquet

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FETCH_BYTES = 2**26
"""The largest part of a row group that is fetched at once from remote storage; a larger one is read bit by bit."""


class BatchSize:
    """How many rows make a batch: by the types of the columns, else by the rows read, as compressed sizes say little.

    Args:
        columns: how many columns are read.
        row_bytes: how many bytes each row takes; None if that is not the same for all rows.
    """

    FIRST_ROWS, MAX_ROWS = 256, 2**17
    BATCH_BYTES = 2**22
    COLUMN_BYTES = 2**13  # more for each column, because Arrow takes as long to begin a column as to read half as much

    def __init__(self, columns: int, row_bytes: int | None) -> None:
        self.learned = self._certain = row_bytes is not None
        self._bytes = self.BATCH_BYTES + self.COLUMN_BYTES * columns
        self._row_bytes = 1.0 if row_bytes is None else float(row_bytes)

    def rows(self) -> int:
        return int(min(self.MAX_ROWS, max(1, self._bytes / self._row_bytes))) if self.learned else self.FIRST_ROWS

    def learn(self, batch: pa.RecordBatch) -> None:
        if not self._certain:
            self.learned = True
            # Not `nbytes`, which takes ten times as long.
            self._row_bytes = max(self._row_bytes, batch.get_total_buffer_size() / max(1, batch.num_rows))


class RowGroupPart(NamedTuple):
    """Some rows of a row group, after the filter.

    Attributes:
        rows: those that match the filter.
        numbers: their numbers in the file, from 0.
        stop: how many rows of the row group have been read, these included.
    """

    rows: Rows
    numbers: npt.NDArray[np.int64] | range
    stop: int


class ParquetFile:
    """Reads a file, given what is fixed for all files.

    It keeps no reference to the footer, which may take much memory: each call is given it.

    Args:
        options: with names and types fixed.
        footer: of the file.
        values: of columns that the file does not hold, from the log of a table; None if its folders say them.

    Raises:
        DataError: its columns do not fit those fixed.
    """

    def __init__(self, options: Parquet, footer: ParquetFooter, values: Mapping[str, Any] | None = None) -> None:
        self._options = options
        self._fixed = options.require_fixed_schema(footer.name)
        self._name = footer.name
        columns = self._fixed.columns_in(footer)
        self._names = options.names_to_read()
        read = self._fixed.read_columns
        if self._names != self._fixed.names:
            read = [name for name in self._fixed.file_types if name in {*self._names, *self._fixed.filter_columns}]
        self._read = None if read is None else footer.existing(read)
        self._constants = self._fixed.constants(footer.name, columns, values)
        self._signature = RowSignature()

    def matching_row_groups(self, footer: ParquetFooter) -> Sequence[int]:
        """The row groups that may have rows for the filter and for those that follow."""
        groups: Sequence[int] = range(footer.metadata.num_row_groups)
        for expression, types in self._options.filters():
            constants = {name: value for name, value in self._constants.items() if name in types}
            matching = footer.matching_row_groups(expression, types, constants)
            groups = groups if matching is None else sorted({*groups}.intersection(matching))
        return groups

    def byte_ranges(self, footer: ParquetFooter, group: int) -> list[tuple[int, int]] | None:
        """Where the columns to read of a row group begin and end; None if they are too large to fetch at once."""
        ranges = footer.byte_ranges(group, self._read)
        return ranges if sum(end - begin for begin, end in ranges) <= MAX_FETCH_BYTES else None

    def read_row_group(
        self,
        footer: ParquetFooter,
        stream: object,
        group: int,
        first: int,
        skip: int,
        size: BatchSize,
        *,
        buffer: int,
        threads: bool,
    ) -> Iterator[RowGroupPart]:
        """Read the rows of a row group without the first `skip`.

        Args:
            footer: of the file.
            stream: the file, as Arrow reads it.
            group: the number of the row group.
            first: the number in the file of its first row.
            skip: how many of its rows to leave out.
            size: how many rows to read at a time.
            buffer: how many bytes of a column to read at a time; 0 for all of a row group.
            threads: whether Arrow may use its threads.

        Raises:
            SourceError, DataError: the rows cannot be read; those before come first.
        """
        place, expected = 0, footer.metadata.row_group(group).num_rows
        while True:
            learning = not size.learned
            for batch in self._batches(footer, stream, group, size.rows(), buffer, threads=threads):
                size.learn(batch)
                start, stop = place, place + batch.num_rows
                place = stop
                if stop > skip:
                    cut = max(0, skip - start)
                    parts = [self._part(batch.slice(cut), first + start + cut, stop)]
                    # Arrow then writes the next batch into memory that is in the cache, which saves 20 % of the time.
                    del batch
                    yield parts.pop()
                if learning:
                    break
            if not (learning and 0 < place < expected):
                break
            skip, place = max(skip, place), 0  # read again, with batches of the size now learned
        if place != expected:
            raise DataError(
                f"{self._name}, row group {group}, should have {expected} rows and has {place}: it is damaged"
            )

    def _batches(
        self, footer: ParquetFooter, stream: object, group: int, rows: int, buffer: int, *, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            # Not mapped into memory: that is no faster, and kills the process if a file is cut short meanwhile.
            file = parquet.ParquetFile(
                cast("Any", stream),
                metadata=footer.metadata,
                pre_buffer=False,
                buffer_size=buffer,
                page_checksum_verification=True,
                coerce_int96_timestamp_unit=self._options.int96_unit,
            )
            # A single thread of Arrow's would do the same work, but in the cache of another core.
            use_threads = threads and pa.cpu_count() > 1
            batches = file.iter_batches(rows, row_groups=[group], columns=self._read, use_threads=use_threads)
            while (batch := next(batches, None)) is not None:
                batch.validate(full=True)  # Arrow does not check that text is UTF-8
                validated = [batch]
                del batch
                yield validated.pop()
        except (FeedpipeError, GeneratorExit):  # while Python exits, `arrow_errors` can import nothing
            raise
        except arrow_errors() as error:
            raise read_error(error, f"{self._name}, row group {group},") from error

    def _part(self, batch: pa.RecordBatch, first: int, stop: int) -> RowGroupPart:
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
            matches = matching_rows(self._options.filter, {n: arrays[n] for n in fixed.filter_columns}, length)
            if not matches.all():
                places = np.flatnonzero(matches)
                arrays = {name: arrays[name].take(places) for name in self._names}
                numbers, length = places + first, len(places)
        columns = {name: to_column(arrays[name]) for name in self._names}
        lineage = self._options.lineage.columns_for(self._name, numbers)
        return RowGroupPart(sharing(self._signature, Rows({**columns, **lineage}, length)), numbers, stop)
