"""Readers by position: one operator, and formats that know where each row is; and records that are bytes of a file."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..core.arrow import arrow_array
from ..core.block import Parted
from ..core.context import Context
from ..core.cursor import Json
from ..core.lazy import pa
from ..core.operator import Operator, Order, Source, StageView, Trait
from ..core.process import PerProcess
from ..core.rows import BlockRows, Indices, Rows, index_array, take
from ..core.skips import Skipped
from ..errors import ArgumentError, DataError, Origin, SourceError, redacted
from ..formats.streams import MAX_CONTENT_BYTES
from ..formats.table_format import TableFormat
from ..storage.file import File, Stream
from ..storage.filesystem import Cancellation
from ..storage.remote import RemoteFile
from ..storage.tasks import in_threads, in_turn
from .footers import CountedFormat
from .open_files import FileVersions, at_call_site, check_file, file_key
from .units import Format, InputFiles, Malformed, OfFormat, Units

Numbers = npt.NDArray[np.int64]

UnitsAt: TypeAlias = Callable[[Indices], list[Any]]
"""Gives the units with these numbers: the files, or what comes before the parser in place of them."""
Mark: TypeAlias = Callable[[int, Malformed], Skipped]
"""Makes the mark of a malformed row at a position; raises its error if it is not skipped."""

_MAX_GAP_BYTES = 2**12
"""Two records with a smaller gap between them are read together."""
_MAX_OPEN_FILES = 64


class IndexedFormat(Format):
    """A format whose files tell where each row is; `if_indexed` says what they need for that."""

    if_indexed: ClassVar[str]
    indexed: bool

    @abstractmethod
    def with_table(self, files: InputFiles) -> tuple[Self, RowTable]:
        """Find all rows, and what the files tell about their columns."""

    @abstractmethod
    def row_reader(self, table: RowTable, units: UnitsAt) -> RowReader:
        """Make the reader of a process."""

    def part(self, units: range) -> Self:
        """The format of some neighbouring units."""
        return self

    @abstractmethod
    def origin(self, unit: Any, number: int, begin: int) -> Origin:
        """The origin of the row with this number in a unit, which begins at this byte of a file."""


class RowReader(ABC):
    """Reads rows by their position, for all threads of a process."""

    @abstractmethod
    def rows(self, indices: Indices, mark: Mark) -> BlockRows:
        """The rows at `indices`, in that order, with marks for those that are malformed."""


@dataclass(frozen=True, eq=False, repr=False)
class ParseByPosition(OfFormat, Source):  # pyright: ignore[reportIncompatibleVariableOverride]
    """The rows of files by their position in all of them."""

    order: ClassVar[Order] = Order.ROW_LOCAL

    format: IndexedFormat = field(repr=False)
    table: RowTable | None = field(default=None, repr=False, kw_only=True)
    """None before `resolve`."""
    reader: PerProcess[RowReader] = field(default_factory=PerProcess, repr=False, kw_only=True)

    @property
    def trait(self) -> Trait | None:  # type: ignore[override]
        return Trait.FOLLOWS if isinstance(self.format, CountedFormat) else None

    @property
    def resolved_table(self) -> RowTable:
        assert self.table is not None, "a run begins with `resolve`"
        return self.table

    def identity(self) -> Json:
        return {"format": self.format.identity(), "rows": None if self.table is None else self.table.digest()}

    def resolve(self, stage: StageView) -> Operator:
        if self.table is not None:
            return self
        try:
            form, table = self.format.with_table(InputFiles(stage, self.kind, has_fixed_order=True))
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__
        # A new reader: open files belong to these rows, and other rows may be found next time.
        return replace(self, format=form, table=table, reader=PerProcess())

    def within(self, rows: range) -> Operator:
        return replace(self, format=self.format.part(rows), table=self.resolved_table.part(rows), reader=PerProcess())

    def length(self, stage: StageView) -> int:
        return len(self.resolved_table)

    def weights(self, stage: StageView, context: Context) -> None:
        return None

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        places = self.resolved_table.at(np.array([index]))
        (unit,) = self._units(stage, places.units)
        return self.format.origin(unit, int(places.numbers[0]), int(places.begins[0]))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        if isinstance(self.format, TableFormat) and self.format.fixed_schema is None:  # there is no row
            return Rows({}, 0)

        def mark(position: int, malformed: Malformed) -> Skipped:
            error, origin, content = malformed
            skipped = stage.skip(error, position, content, context, origin)
            if skipped is None:
                raise error
            return skipped

        try:
            return self.reader.get(lambda: self._make_reader(stage)).rows(indices, mark)
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def _make_reader(self, stage: StageView) -> RowReader:
        return self.format.row_reader(self.resolved_table, lambda numbers: self._units(stage, numbers))

    def _units(self, stage: StageView, numbers: Indices) -> list[Any]:
        units = stage.input.rows(numbers, Context()) if len(numbers) else []
        return [*units] if isinstance(stage.input.op, Units) else [check_file(stage, self.kind, unit) for unit in units]


@dataclass(frozen=True, eq=False)
class RowTable:
    """The places of all rows.

    Attributes:
        firsts: the position of the first row of each unit, and the number of all rows.
        bounds: of each unit, the byte of its file at which each row begins, and that after the last one; None if the
            rows are no records.
    """

    firsts: Numbers
    bounds: Numbers | None = None

    @staticmethod
    def of_records(files: Iterable[Numbers]) -> RowTable:
        """The table of records, given the bounds of those of each file."""
        bounds = [*files]
        firsts = np.cumsum([0, *(len(some) - 1 for some in bounds)], dtype=np.int64)
        return RowTable(firsts, np.concatenate([np.zeros(0, np.int64), *bounds]))

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def part(self, units: range) -> RowTable:
        """The rows of some neighbouring units."""
        firsts = self.firsts[units.start : units.stop + 1]
        begin, end = int(firsts[0]), int(firsts[-1])
        bounds = None if self.bounds is None else self.bounds[begin + units.start : end + units.stop]
        return RowTable(firsts - begin, bounds)

    def digest(self) -> str:
        """A digest of all numbers, for states."""
        bounds = b"" if self.bounds is None else self.bounds.tobytes()
        return hashlib.blake2b(self.firsts.tobytes() + bounds, digest_size=16).hexdigest()

    def at(self, positions: Numbers) -> RowPlaces:
        """Look up rows."""
        owners = np.searchsorted(self.firsts, positions, "right") - 1
        units, places = np.unique(owners, return_inverse=True)
        numbers = positions - self.firsts[owners]
        if self.bounds is None:
            return RowPlaces(units, places, numbers, numbers, numbers)
        records = positions + owners  # each file has one bound more than it has records
        return RowPlaces(units, places, numbers, self.bounds[records], self.bounds[records + 1])


class RowPlaces(NamedTuple):
    """The places of some rows.

    Attributes:
        units: the numbers of their units in the input, each once.
        owners: the index of the unit of each row among these.
        numbers: of each row in its unit.
        begins, ends: the byte of its file at which each record begins, and that after it.
    """

    units: Numbers
    owners: npt.NDArray[np.intp]
    numbers: Numbers
    begins: Numbers
    ends: Numbers


class RecordBytes(NamedTuple):
    """Records that are read and not parsed yet: their bounds in `data`, their places, and the files of these."""

    data: bytes
    starts: Numbers
    ends: Numbers
    places: RowPlaces
    files: list[File]

    def file(self, place: int) -> File:
        """The file of one of the records."""
        return self.files[int(self.places.owners[place])]


class ParsedRecords(NamedTuple):
    """The rows of the sound records, the places of these among all in order, and the errors of the other places."""

    rows: BlockRows
    sound: Sequence[int]
    malformed: Mapping[int, DataError]


class RecordRows(RowReader):
    """Reads records, which a subclass parses, and keeps the last few files open."""

    def __init__(self, form: IndexedFormat, table: RowTable, files: UnitsAt) -> None:
        self._form = form
        self._table = table
        self._files = files
        self._checked: set[object] = set()
        self._opened: OrderedDict[object, Stream | RemoteFile] = OrderedDict()
        self._versions = FileVersions()
        self._lock = threading.Lock()

    @abstractmethod
    def parse(self, records: RecordBytes) -> ParsedRecords:
        """Make rows of records."""

    def check(self, number: int, file: File, stream: Stream) -> None:
        """Raise an error if a file, which is opened for the first time, has other records by now."""
        return

    def rows(self, indices: Indices, mark: Mark) -> BlockRows:
        positions, order = np.unique(index_array(indices), return_inverse=True)
        places = self._table.at(positions)
        files = self._files(places.units)
        data, starts = self._read(files, places)
        records = RecordBytes(data, starts, starts + (places.ends - places.begins), places, files)
        rows, sound, malformed = self.parse(records)
        if malformed:
            skipped: dict[int, Skipped] = {}
            for place, error in sorted(malformed.items()):
                origin = self._form.origin(records.file(place), int(places.numbers[place]), int(places.begins[place]))
                content = data[starts[place] : records.ends[place]]
                skipped[place] = mark(int(positions[place]), Malformed(error, origin, content[:MAX_CONTENT_BYTES]))
            rows = Parted(rows, sound, skipped, len(positions)).merged(rows)
        return rows if isinstance(indices, range) and indices.step > 0 else take(rows, order)

    def _read(self, files: Sequence[File], places: RowPlaces) -> tuple[bytes, Numbers]:
        """Read records of `files`, whose places rise within each file.

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
            opened = self._open_all(files, places.units.tolist())
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
        if file_key(file) not in self._checked:
            self.check(number, file, stream)
        return stream if stream.remote is None else stream.remote.file


def _read_part(file: Stream | RemoteFile, begin: int, size: int) -> bytes:
    if isinstance(file, RemoteFile):
        return file.read(begin, size, Cancellation())
    return bytes(cast("Any", file.raw).read_at(size, begin))


def extend_rows(
    form: TableFormat, rows: Rows, locate: Callable[[], tuple[Sequence[str], npt.NDArray[np.intp], Numbers]]
) -> Rows:
    """Rows of any files, with the columns that files do not hold.

    `locate` finds the paths of files, and of each row the index of its file among these, and its number there.
    """
    fixed, lineage = form.require_fixed_schema(""), form.lineage
    if not fixed.folder_types and lineage == (None, None):
        return rows
    paths, owners, numbers = locate()
    folders = [fixed.constants(path, fixed.file_types) for path in paths]
    columns = dict(rows.columns)
    for name, kind in fixed.folder_types.items():
        values: Any = arrow_array([values[name].as_py() for values in folders], kind)
        columns[name] = values.take(arrow_array(owners))
    if lineage.path_column is not None:
        listed: Any = arrow_array([redacted(path) for path in paths], pa.string())
        columns[lineage.path_column] = listed.take(arrow_array(owners))
    if lineage.row_column is not None:
        columns[lineage.row_column] = numbers
    names = [*fixed.names, *(name for name in lineage if name is not None)]
    return Rows({name: columns[name] for name in names}, len(rows))
