"""One Parquet file: how its columns become those of the first file, and its rows, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..rows import Column, Rows
from .columns import listed
from .hive import is_int64, scalar, values_in
from .parquet import Fixed, Parquet
from .parquet_filter import mask
from .parquet_footer import Footer, broken, failures
from .parquet_types import fits

if TYPE_CHECKING:
    import pyarrow as pa

PREBUFFERED = 2**26
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
        if options.fixed is None:
            raise DataError(
                f"{footer.name}: names and types of columns are fixed before the first row, from the first file of "
                "seed 0 and epoch 0, and then there was none; a pipe that draws its files needs one there"
            )
        self.footer = footer
        self._options = options
        self._fixed = options.fixed
        self._name = footer.name
        _check_columns(footer, self._fixed)
        self._folders = _folder_values(footer.name, self._fixed)

    def matching(self) -> Sequence[int]:
        """The row groups that may have rows for the filter."""
        found: Sequence[int] | None = None
        if self._options.filter is not None:
            types = {name: self._fixed.types[name] for name in self._fixed.needed}
            folders = {name: value for name, value in self._folders.items() if name in types}
            found = self.footer.matching(self._options.filter, types, folders)
        return range(self.footer.metadata.num_row_groups) if found is None else found

    def pieces(
        self, stream: BinaryIO, group: int, first: int, inside: int, width: Width, *, near: bool, threads: bool
    ) -> Iterator[Piece]:
        """The rows of a row group without the first `inside`.

        Args:
            stream: the file.
            group: the number of the row group.
            first: the number in the file of its first row.
            inside: rows of it to leave out.
            width: how many rows to read at a time.
            near: whether a small read costs little, as on this machine.
            threads: whether Arrow may use its own.

        Raises:
            SourceError, DataError: the rows cannot be read; those before come first.
        """
        place, expected = 0, self.footer.metadata.row_group(group).num_rows
        while True:
            learning = not width.known
            for batch in self._batches(stream, group, width.rows(), near=near, threads=threads):
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
        self, stream: BinaryIO, group: int, size: int, *, near: bool, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        from pyarrow import parquet

        try:
            whole = not near and self.footer.stored(group, self._fixed.read) <= PREBUFFERED
            # Not mapped into memory: that is no faster, and kills the process where a file is cut short meanwhile.
            file = parquet.ParquetFile(
                cast("Any", getattr(stream, "raw", stream)),
                metadata=self.footer.metadata,
                pre_buffer=whole,
                buffer_size=0 if whole else 2**16 if near else 2**22,
                page_checksum_verification=True,
            )
            batches = file.iter_batches(size, row_groups=[group], columns=self._fixed.read, use_threads=threads)
            while (batch := next(batches, None)) is not None:
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
            kind = fixed.inside[name]
            arrays[name] = array if array.type == kind else self._cast(array, kind, name)
        for name, value in self._folders.items():
            arrays[name] = pa.repeat(value, length)
        numbers: npt.NDArray[np.int64] | range = range(first, first + length)
        if self._options.filter is not None:
            kept = mask(self._options.filter, {n: arrays[n] for n in fixed.needed} or arrays)
            if not kept.all():
                chosen = np.flatnonzero(kept)
                arrays = {name: arrays[name].take(chosen) for name in fixed.names}
                numbers, length = chosen + first, len(chosen)
        columns = {name: _column(arrays[name]) for name in fixed.names}
        return Piece(Rows(self._with_lineage(columns, numbers), length), numbers, stop)

    def _with_lineage(self, columns: dict[str, Column], numbers: npt.NDArray[np.int64] | range) -> dict[str, Column]:
        import pyarrow as pa

        if self._options.path_column is not None:
            columns[self._options.path_column] = pa.repeat(pa.scalar(self._name, pa.string()), len(numbers))
        if self._options.row_column is not None:
            made = np.asarray(numbers, np.int64)
            made.flags.writeable = False
            columns[self._options.row_column] = made
        return columns

    def _cast(self, array: Any, kind: pa.DataType, name: str) -> Any:
        import pyarrow as pa

        try:
            return array.cast(kind)
        except pa.ArrowException as error:
            raise DataError(
                f"{self._name}, column {name!r}: values of type {array.type} cannot become {kind}, the type in "
                f"{self._fixed.source}: {error}"
            ) from error


def _column(array: Any) -> Column:
    """Numbers without nulls as NumPy's: its gathers, which a shuffle is made of, are faster."""
    import pyarrow as pa

    if array.null_count == 0 and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return cast("Column", array.to_numpy(zero_copy_only=True))
    return cast("Column", array)


def _check_columns(footer: Footer, fixed: Fixed) -> None:
    """Raises a `DataError` unless the columns of the file are the fixed ones, or become them without loss."""
    if footer.name == fixed.source:
        return
    has = {part.name: part.type for part in footer.reading(fixed.read)}
    known = footer.knows(fixed.read) if fixed.read is not None else [*has]
    for name in fixed.read if fixed.read is not None else fixed.inside:
        if name not in known:
            raise DataError(
                f"{footer.name} has no column {name!r}, and {fixed.source} has one; it has "
                f"{listed(footer.schema.names)}; files with different columns are read by pipes of their own, or "
                "`columns=` names those that all have"
            )
    for name, kind in has.items():
        if name not in fixed.inside:
            raise DataError(
                f"{footer.name} has a column {name!r}, and {fixed.source} has none; `columns=` names those to read"
            )
        if not fits(kind, fixed.inside[name]):
            raise DataError(
                f"{footer.name}, column {name!r}: its type is {kind}, and {fixed.inside[name]} in {fixed.source}, "
                "which cannot hold all such values; write one of the files anew, read files with the wider type first, "
                "or leave the column out with `columns=`"
            )


def _folder_values(path: str, fixed: Fixed) -> dict[str, Any]:
    found = values_in(path) if fixed.folders else {}
    made: dict[str, Any] = {}
    for name, kind in fixed.folders.items():
        if name not in found:
            raise DataError(
                f"{path} is in no folder {name}=..., and {fixed.source} is; a pipe of its own reads it, or `columns=` "
                "names columns that all files have"
            )
        text = found[name]
        if text is not None and str(kind) == "int64" and not is_int64(text):
            raise DataError(f"{path}: {text!r} in the name of its folder is no int64, as in {fixed.source}")
        made[name] = scalar(text, kind)
    return made
