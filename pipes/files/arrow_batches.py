"""Record batches and streams of Arrow: the units of `parse_arrow`, and how their rows are read in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from ..core.context import Context
from ..errors import DataError, FeedpipeError, Origin
from ..formats.columns import FlatHead, read_error
from ..storage.file import WHOLE, File, Stream
from ..storage.filesystem import Cancellation
from ..storage.mapping import local_path, map_file
from ..storage.tasks import Task, in_threads
from .arrow_ipc import ArrowFooter, ArrowHead, ArrowIpc, BatchHead, ipc_errors, open_stream, read_arrow_head
from .open_files import OpenFileCache, OpenTask
from .units import UNKNOWN, CountedUnits, FileContents, FileUnits, Piece, Place, UnitReader

if TYPE_CHECKING:
    import pyarrow as pa

    from .arrow_file import ArrowFile

STREAM = -1
"""The number of a unit that is a whole stream."""


class RecordBatch(NamedTuple):
    """A handle on a record batch of a file, or on a whole stream.

    Attributes:
        file: the file or stream.
        number: of the batch in the file; `STREAM` for a stream.
        rows: how many it has; `UNKNOWN` for a stream.
        first: the number of its first row in the file.
        seal: of the footer that says where it is.
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
    """A handle for each record batch of each file, from the footers, and one for each stream."""

    kind: ClassVar[str] = "record_batches"
    fields: ClassVar[tuple[str, ...]] = RecordBatch._fields

    def head(self, file: File) -> ArrowHead:
        with file.open() as stream:
            return read_arrow_head(stream, file.name)

    def contents(self, file: File) -> FileContents:
        with file.open() as stream:
            head = read_arrow_head(stream, file.name)
            fixed = self.format.require_fixed_schema(file.name)
            fixed.constants(file.path, fixed.columns_in(head))
            if not isinstance(head, ArrowFooter):
                if self.format.indexed:
                    raise DataError(
                        f"{file.name} is a stream or is compressed as a whole, so its rows have no positions; "
                        "`list_files(...).open_files().parse_arrow()` reads it in order"
                    )
                return FileContents(head.schema, 0, [UNKNOWN], [False])
            batches = _read_batch_heads(head, stream)
        rows, compressed = [batch.rows for batch in batches], [batch.compressed for batch in batches]
        return FileContents(head.schema, head.seal, rows, compressed)

    def kept_head(self, file: File, schema: pa.Schema) -> FlatHead:
        return FlatHead(file.name, schema)

    def can_use(self, units: FileUnits) -> bool:
        return not self.format.indexed or not (units.rows == UNKNOWN).any()  # streams are refused by their footers

    def unit(self, file: File, *numbers: int) -> RecordBatch:
        number, rows, first, seal, compressed = numbers
        return RecordBatch(file, number, rows, first, seal, bool(compressed))


def _read_batch_heads(footer: ArrowFooter, stream: Stream) -> list[BatchHead]:
    if stream.remote is not None:
        return footer.batch_heads(partial(stream.remote.file.read, cancellation=Cancellation()), in_threads)

    def read(offset: int, size: int) -> bytes:
        stream.seek(offset)
        return stream.read(size)

    return footer.batch_heads(read)


def arrow_file_cache(format: ArrowIpc) -> OpenFileCache[RecordBatch, ArrowFile]:
    """Opens the files of record batches. Local ones are mapped into memory."""
    return OpenFileCache(partial(_open, format), lambda file: file.close())


def _open(format: ArrowIpc, unit: RecordBatch) -> ArrowFile:
    from .arrow_file import ArrowFile

    path = local_path(unit.file)
    if path is None:
        return ArrowFile(unit.file, format, unit.seal, None)
    unit.file.open(None).close()  # it is there, and has the size that was listed
    return ArrowFile(unit.file, format, unit.seal, map_file(path, unit.file.name))


_Opened: TypeAlias = "OpenTask | Task[ArrowFile]"
"""A stream, or the file of a record batch."""


class RecordBatchReader(UnitReader[RecordBatch, _Opened]):
    """Reads record batches and streams.

    A place is [number of the batch in the stream, rows of the batch before it]; the number is 0 for a batch of a file.
    A resume seeks to the batch of a file; it reads a stream up to there.
    """

    beginning: ClassVar[Place] = (0, 0)

    def __init__(self, format: ArrowIpc, context: Context) -> None:
        self._format = format
        self._origins = context.tracing.origins
        self._files = arrow_file_cache(format)

    def is_remote(self, unit: RecordBatch) -> bool:
        return not unit.file.is_local()

    def start_reading(self, unit: RecordBatch, early: bool) -> _Opened:
        return OpenTask(unit.file, WHOLE if early else None) if unit.number == STREAM else self._files.task(unit)

    def pieces(self, unit: RecordBatch, opened: _Opened, place: Place) -> Iterator[Piece]:
        number, before = place
        if isinstance(opened, OpenTask):
            yield from self._of_stream(unit.file, opened, number, before)
            return
        batch = opened.result().read_batch(unit.number, unit.rows, unit.compressed)
        yield self._piece(unit.file, batch.slice(before), unit.first + before, (0, before), None)

    def close(self) -> None:
        self._files.close()

    def _of_stream(self, file: File, opened: OpenTask, begin: int, before: int) -> Iterator[Piece]:
        """The rows of a stream behind the first `before` of batch `begin`."""
        from .arrow_file import validated

        first = number = 0
        with opened.result() as stream:
            try:
                for number, batch in enumerate(open_stream(stream)):
                    count = batch.num_rows
                    if number >= begin and count > before:
                        types = self._format.require_fixed_schema(file.name).file_types
                        selected = validated(batch.select([name for name in types if name in batch.schema.names]))
                        at, end = (number, before), (number + 1, 0)
                        yield self._piece(file, selected.slice(before), first + before, at, end)
                    if number >= begin:
                        before = 0
                    first += count
            except FeedpipeError:
                raise
            except ipc_errors() as error:
                raise read_error(error, f"{file.name}, record batch {number + 1 if first else 0},") from error

    def _piece(self, file: File, batch: pa.RecordBatch, first: int, at: Place, end: Place | None) -> Piece:
        """The rows of a batch; `first` is the number of the first one in the file."""
        count = batch.num_rows
        rows = self._format.to_rows(batch, file.path, range(first, first + count))
        origins: list[Origin | None] | None = None
        if self._origins:
            origins = [Origin(file.path, first + k + 1) for k in range(count)]
        return Piece(rows, at, end, origins)
