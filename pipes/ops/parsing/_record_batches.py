"""The record batches of Arrow files: the units of `parse_arrow`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from ...errors import DataError
from ...formats.arrow.ipc import ArrowFooter, ArrowHead, ArrowIpc, BatchHead, read_arrow_head
from ...storage.file import File, Stream
from ...storage.retry import Cancellation
from ...storage.tasks import in_threads
from ._counted_units import UNKNOWN, CountedUnits

STREAM = -1
"""The number of a unit that is a whole stream."""


class RecordBatch(NamedTuple):
    """A handle on a record batch of a file; or on a whole stream.

    Attributes:
        file: the file it is in.
        number: its number there; `STREAM` for all of a stream.
        rows: how many it has; `UNKNOWN` of a stream.
        first: the number in the file of the first of them.
        seal: that of the footer that says where it is.
        compressed: whether its columns are.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int
    compressed: bool


@dataclass(frozen=True, eq=False)
class RecordBatches(CountedUnits[ArrowIpc, RecordBatch]):
    """A handle for each record batch of each file; the footers say which there are. A stream is one unit."""

    kind: ClassVar[str] = "record_batches"
    fields: ClassVar[tuple[str, ...]] = RecordBatch._fields

    def head(self, file: File) -> ArrowHead:
        with file.open() as stream:
            return read_arrow_head(stream, file.name)

    def units(self, files: Sequence[File]) -> Iterable[Sequence[RecordBatch]]:
        return in_threads(self._batches, files)

    def unit(self, file: File, *numbers: int) -> RecordBatch:
        number, rows, first, seal, compressed = numbers
        return RecordBatch(file, number, rows, first, seal, bool(compressed))

    def _batches(self, file: File) -> list[RecordBatch]:
        with file.open() as stream:
            head = read_arrow_head(stream, file.name)
            fixed = self.format.require_fixed_schema(file.name)
            fixed.constants(file.path, fixed.columns_in(head))
            if not isinstance(head, ArrowFooter):
                if self.format.indexed:
                    raise DataError(
                        f"{file.name} is a stream or is compressed as a whole, and so has no rows by position; "
                        "`list_files(...).open_files().parse_arrow()` reads it in order"
                    )
                return [RecordBatch(file, STREAM, UNKNOWN, 0, 0, False)]
            batches = _batches(head, stream)
        firsts = np.cumsum([0, *(batch.rows for batch in batches)]).tolist()
        return [
            RecordBatch(file, k, batch.rows, firsts[k], head.seal, batch.compressed)
            for k, batch in enumerate(batches)
            if batch.rows
        ]


def _batches(footer: ArrowFooter, stream: Stream) -> list[BatchHead]:
    if stream.remote is not None:
        return footer.batch_heads(partial(stream.remote.file.read, cancellation=Cancellation()), in_threads)

    def read(offset: int, size: int) -> bytes:
        stream.seek(offset)
        return stream.read(size)

    return footer.batch_heads(read)
