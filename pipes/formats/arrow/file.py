"""An Arrow file that is open: its record batches, in any order."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ...errors import DataError, SourceError
from ..tables.takeable import takeable
from .ipc import ArrowIpc, Footer, broken_ipc, read_names, told

if TYPE_CHECKING:
    import pyarrow as pa

    from ...storage.file import File


class ArrowFile:
    """Reads record batches; a file on this machine is mapped, and they are views of it.

    Args:
        file: a handle on it.
        options: what the user wants of it, with names and types fixed.
        seal: that of its footer, by which its batches are known.
        local: its path on this machine; None where it lies elsewhere.

    Raises:
        SourceError: it cannot be read, or is another one now.

    Attributes:
        mapped: whether it is.
    """

    def __init__(self, file: File, options: ArrowIpc, seal: int, local: str | None) -> None:
        import pyarrow as pa

        self.name = file.name
        self._fixed = options.known(file.name)
        self._stream: io.BufferedReader = file.open(None)
        self.mapped = local is not None
        try:
            source: Any = self._stream.raw
            if local is not None:
                self._stream.close()
                with pa.memory_map(local) as mapping:
                    source = mapping.read_buffer()
                self._stream = io.BufferedReader(cast("io.RawIOBase", pa.BufferReader(source)))
            footer = read_names(self._stream, file.name)
            if not isinstance(footer, Footer) or footer.seal != seal:
                raise SourceError(
                    f"{file.name} has changed since its footer was read; a pipe and a loader read footers once, so "
                    "make those anew"
                )
            wanted = [place for place, name in enumerate(footer.names) if name in self._fixed.inside]
            self._names = [name for name in self._fixed.inside if name in footer.names]
            self._constants = self._fixed.constants(file.path, self._names)
            self._whole = pa.ipc.open_file(source)
            self._wanted = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))
        except broken_ipc() as error:
            self._stream.close()
            raise told(error, file.name) from error

    def batch(self, number: int, rows: int, compressed: bool, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """A record batch, checked, with those columns that are read, or some of them, as far as the file has them."""
        what = f"{self.name}, record batch {number},"
        try:
            # To leave columns out makes Arrow copy the others, even out of a map.
            in_place = self.mapped and not compressed
            batch = (self._whole if in_place else self._wanted).get_batch(number)
            if batch.num_rows != rows:
                raise DataError(f"{what} should have {rows} rows and has {batch.num_rows}: it is damaged")
            return checked(batch.select([name for name in self._names if columns is None or name in columns]))
        except broken_ipc() as error:
            raise told(error, what) from error

    def settled(self, batch: pa.RecordBatch, columns: Sequence[str], count: int) -> pa.RecordBatch:
        """These columns of `count` rows of a batch, with the types that are fixed for all files."""
        import pyarrow as pa

        arrays: list[Any] = []
        for name in columns:
            if name in batch.schema.names:
                arrays.append(self._fixed.cast(batch.column(name), name, self.name))
            else:
                arrays.append(pa.repeat(self._constants[name], count))
        return pa.RecordBatch.from_arrays(arrays, list(columns))

    def close(self) -> None:
        self._stream.close()


def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of which rows can be taken, and no value leads out of its memory, whatever the file says."""
    import pyarrow as pa

    for column in batch.columns:  # of which pyarrow may lack a class, such as for intervals
        column.validate(full=True)
    return takeable(pa.Table.from_batches([batch])).to_batches()[0] if batch.num_columns else batch
