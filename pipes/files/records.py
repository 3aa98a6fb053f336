"""Records by their position in all files: a table of their places, a reader, and the base of their parsers."""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..core.block import Parted
from ..core.context import Context
from ..core.cursor import START
from ..core.operator import Operator, Order, Source, StageView
from ..core.process import PerProcess
from ..core.rows import BlockRows, Indices, Rows, index_array, take
from ..core.skips import OnError, Skipped, check_on_error
from ..errors import ArgumentError, DataError, Origin, SourceError, redacted
from ..formats.streams import MAX_CONTENT_BYTES
from ..formats.table_format import TableFormat
from ..storage.file import File, Stream
from ..storage.filesystem import Cancellation
from ..storage.remote import RemoteFile
from ..storage.tasks import in_threads, in_turn
from .open_files import FileVersions, at_call_site, check_file, file_key
from .units import Malformed

Numbers = npt.NDArray[np.int64]

_MAX_GAP_BYTES = 2**12
"""Two records with a smaller gap between them are read together."""
_MAX_OPEN_FILES = 64


@dataclass(frozen=True, eq=False)
class IndexedRecords(Source):
    """The base of parsers by position: a subclass finds the records of all files, and parses some of them."""

    order: ClassVar[Order] = Order.ROW_LOCAL

    on_error: OnError | None = field(default=None, kw_only=True, compare=False)
    table: RecordTable | None = field(default=None, repr=False, kw_only=True)
    """None before `resolve`."""
    source: PerProcess[RecordSource] = field(default_factory=PerProcess, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    @abstractmethod
    def with_table(self, stage: StageView) -> Operator:
        """Find all records, and what the files tell about their columns."""

    @abstractmethod
    def parse(self, records: RecordBytes) -> ParsedRecords:
        """Make rows of records."""

    @abstractmethod
    def origin_of(self, file: File, number: int, begin: int) -> Origin:
        """The origin of the record with this number in a file, which begins at this byte."""

    def open_source(self) -> RecordSource:
        """Make the reader of the records in a process."""
        return RecordSource()

    def resolve(self, stage: StageView) -> Operator:
        if self.table is not None:
            return self
        try:
            return self.with_table(stage)
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self.resolved_table)

    def weights(self, stage: StageView, context: Context) -> None:
        return None

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        places = self.resolved_table.at(np.array([index]))
        (file,) = self._files_at(stage, places.files)
        return self._origin(file, places, 0)

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        positions, order = np.unique(index_array(indices), return_inverse=True)
        places = self.resolved_table.at(positions)
        files = self._files_at(stage, places.files)
        try:
            data, starts = self.source.get(self.open_source).read(files, places)
            records = RecordBytes(data, starts, starts + (places.ends - places.begins), places, files)
            rows = self._merge(stage, self.parse(records), records, positions, context)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__
        return rows if isinstance(indices, range) and indices.step > 0 else take(rows, order)

    def _merge(
        self, stage: StageView, parsed: ParsedRecords, records: RecordBytes, positions: Numbers, context: Context
    ) -> BlockRows:
        """The rows, with marks for malformed records. Raise the error of one that is not skipped."""
        if not parsed.malformed:
            return parsed.rows
        skipped: dict[int, Skipped] = {}
        for place, (error, origin, content) in sorted(parsed.malformed.items()):
            mark = stage.skip(error, int(positions[place]), content, context, origin)
            if mark is None:
                raise error
            skipped[place] = mark
        return Parted(parsed.rows, parsed.sound, skipped, len(positions)).merged(parsed.rows)

    def malformed(self, records: RecordBytes, place: int, error: DataError, content: bytes) -> Malformed:
        """A record that cannot be parsed."""
        return Malformed(error, self._origin(records.file(place), records.places, place), content[:MAX_CONTENT_BYTES])

    def input_files(self, stage: StageView) -> Iterator[File]:
        """All files."""
        with closing(Context()) as context:
            for block in stage.input.blocks(START, context):
                for value in block.rows:
                    yield check_file(stage, self.kind, value)

    @property
    def resolved_table(self) -> RecordTable:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    def _origin(self, file: File, places: RecordPlaces, place: int) -> Origin:
        return self.origin_of(file, int(places.numbers[place]), int(places.begins[place]))

    def _files_at(self, stage: StageView, numbers: Numbers) -> list[File]:
        values = stage.input.rows(numbers, Context()) if len(numbers) else []
        return [check_file(stage, self.kind, value) for value in values]


class RecordBytes(NamedTuple):
    """Records that are read and not parsed yet.

    Attributes:
        data: the bytes that hold them.
        starts, ends: the bounds of each record in these bytes.
        places: theirs.
        files: those of `places.files`.
    """

    data: bytes
    starts: Numbers
    ends: Numbers
    places: RecordPlaces
    files: list[File]

    def file(self, place: int) -> File:
        """The file of one of the records."""
        return self.files[int(self.places.owners[place])]


class ParsedRecords(NamedTuple):
    """The rows of records.

    Attributes:
        rows: those of the sound records.
        sound: the places of these among all records, in order.
        malformed: the other ones, by their place.
    """

    rows: BlockRows
    sound: Sequence[int]
    malformed: Mapping[int, Malformed]


@dataclass(frozen=True, eq=False)
class RecordTable:
    """The places of all records.

    Attributes:
        firsts: the position of the first record of each file, and the number of all records.
        bounds: of each file, the byte at which each record begins, and that after the last one.
    """

    firsts: Numbers
    bounds: Numbers

    @staticmethod
    def of(files: Iterable[Numbers]) -> RecordTable:
        bounds = [*files]
        firsts = np.cumsum([0, *(len(some) - 1 for some in bounds)], dtype=np.int64)
        return RecordTable(firsts, np.concatenate([np.zeros(0, np.int64), *bounds]))

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def digest(self) -> str:
        """A digest of all numbers, for states."""
        return hashlib.blake2b(self.firsts.tobytes() + self.bounds.tobytes(), digest_size=16).hexdigest()

    def at(self, positions: Numbers) -> RecordPlaces:
        """Look up records."""
        owners = np.searchsorted(self.firsts, positions, "right") - 1
        places = positions + owners  # each file has one bound more than it has records
        files, numbers = np.unique(owners, return_inverse=True)
        begins, ends = self.bounds[places], self.bounds[places + 1]
        return RecordPlaces(files, numbers, positions - self.firsts[owners], begins, ends)


class RecordPlaces(NamedTuple):
    """The places of some records.

    Attributes:
        files: the positions of their files in the input, each once.
        owners: the index of the file of each record among these.
        numbers: of each record in its file.
        begins, ends: the byte of its file at which each record begins, and that after it.
    """

    files: Numbers
    owners: npt.NDArray[np.intp]
    numbers: Numbers
    begins: Numbers
    ends: Numbers


class RecordSource:
    """Reads records by their places, and keeps the last few files open.

    Args:
        check: called with the position of a file in the input, the file and its stream when a process first opens it.
            It raises an error if the file has other records by now.
    """

    def __init__(self, check: Callable[[int, File, Stream], None] | None = None) -> None:
        self._check = check
        self._checked: set[object] = set()
        self._opened: OrderedDict[object, Stream | RemoteFile] = OrderedDict()
        self._versions = FileVersions()
        self._lock = threading.Lock()

    def read(self, files: Sequence[File], places: RecordPlaces) -> tuple[bytes, Numbers]:
        """Read records.

        Args:
            files: those of `places.files`.
            places: of the records. Those of a file follow each other, and rise.

        Returns:
            bytes that hold the records, and the place in them where each begins.
        """
        _, owners, _, begins, ends = places
        if not len(begins):
            return b"", begins
        cuts = np.flatnonzero((owners[1:] != owners[:-1]) | (begins[1:] - ends[:-1] > _MAX_GAP_BYTES)) + 1
        firsts, lasts = np.append(0, cuts), np.append(cuts, len(begins)) - 1
        sizes = ends[lasts] - begins[firsts]
        parts = zip(owners[firsts].tolist(), begins[firsts].tolist(), sizes.tolist(), strict=True)
        run = in_turn if files[0].is_local() else in_threads
        with self._lock:
            opened = self._open_all(files, places.files.tolist())
        data = b"".join(run(lambda part: _read_part(opened[part[0]], part[1], part[2]), parts))
        # A file that was replaced may have other records at the same places.
        remote = (file for file in opened if isinstance(file, RemoteFile))
        for _ in in_threads(lambda file: file.check_unchanged(Cancellation()), remote):
            pass
        shifts = np.cumsum(sizes) - sizes - begins[firsts]
        return data, begins + np.repeat(shifts, lasts - firsts + 1)

    def _open_all(self, files: Sequence[File], numbers: Sequence[int]) -> list[Stream | RemoteFile]:
        keys = [file_key(file) for file in files]
        items = zip(files, numbers, strict=True)
        closed = {key: item for key, item in zip(keys, items, strict=True) if key not in self._opened}
        for key, opened in zip(closed, in_threads(self._open, closed.values()), strict=True):
            self._opened[key] = opened
            self._checked.add(key)
        for key in keys:
            self._opened.move_to_end(key)
        streams = [self._opened[key] for key in keys]
        while len(self._opened) > _MAX_OPEN_FILES:
            self._opened.popitem(last=False)  # the last holder closes it
        return streams

    def _open(self, item: tuple[File, int]) -> Stream | RemoteFile:
        file, number = item
        stream = file.open()
        self._versions.check(file, stream)
        if self._check is not None and file_key(file) not in self._checked:
            self._check(number, file, stream)
        return stream if stream.remote is None else stream.remote.file


def _read_part(file: Stream | RemoteFile, begin: int, size: int) -> bytes:
    if isinstance(file, RemoteFile):
        return file.read(begin, size, Cancellation())
    return bytes(cast("Any", file.raw).read_at(size, begin))


def extend_rows(
    form: TableFormat, rows: Rows, locate: Callable[[], tuple[Sequence[str], npt.NDArray[np.intp], Numbers]]
) -> Rows:
    """Rows of any files, with the columns that files do not hold.

    Args:
        form: the format, with names and types fixed.
        rows: the columns of the files.
        locate: finds the paths of files, and of each row the index of its file among these, and its number there.
    """
    import pyarrow as pa

    fixed, lineage = form.require_fixed_schema(""), form.lineage
    if not fixed.folder_types and lineage == (None, None):
        return rows
    paths, owners, numbers = locate()
    folders = [fixed.constants(path, fixed.file_types) for path in paths]
    columns = dict(rows.columns)
    for name, kind in fixed.folder_types.items():
        values: Any = pa.array([values[name].as_py() for values in folders], kind)
        columns[name] = values.take(owners)
    if lineage.path_column is not None:
        listed: Any = pa.array([redacted(path) for path in paths], pa.string())
        columns[lineage.path_column] = listed.take(owners)
    if lineage.row_column is not None:
        columns[lineage.row_column] = numbers
    names = [*fixed.names, *(name for name in lineage if name is not None)]
    return Rows({name: columns[name] for name in names}, len(rows))
