"""Units that footers list, such as row groups: of files, or of an index."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from ..core.context import Context
from ..core.lazy import pa
from ..core.operator import Weights
from ..engine.ahead import ITEMS_AHEAD
from ..errors import Origin
from ..formats.columns import FlatHead
from ..formats.table_format import TableFormat
from ..storage.file import File
from ..storage.file_units import FileContents, FileUnits, UnitTable
from ..storage.index import BLOCK_FILES, Index, IndexedUnits
from ..storage.tasks import Task, in_threads
from .open_files import OpenFiles, file_key
from .units import InputFiles, Place, UnitFormat

F = TypeVar("F", bound="CountedFormat")
T = TypeVar("T")

_MAX_OPEN_FILES = 8  # units in a random order come back to the same few files
_MAX_OPEN_OBJECTS = 1024


class FileUnit(NamedTuple):
    """A handle on a unit of a file.

    Attributes:
        file: the file.
        number: of the unit in the file; -1 for a stream, which has no units.
        rows: their number; `UNKNOWN` for a stream.
        first: the number of its first row in the file.
        seal: of the footer that lists it.
        compressed: whether its columns are.
        footer_bytes: the length of the footer; 0 if it is not known.
    """

    file: File
    number: int
    rows: int
    first: int
    seal: int
    compressed: bool = False
    footer_bytes: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedFormat(TableFormat, UnitFormat):
    """The base of formats of tables whose footers tell the number of rows of each unit."""

    fields: ClassVar[tuple[str, ...]] = ("file", "number", "rows", "first", "seal")
    counts_rows: ClassVar[bool] = True

    @abstractmethod
    def footer(self, file: File) -> FileContents:
        """Read the footer of a file, whatever is selected of it."""

    @abstractmethod
    def contents(self, file: File) -> FileContents:
        """Read the footer of a file. Names and types are fixed by then, and the columns of the file fit them."""

    def can_use(self, schemas: Sequence[pa.Schema], *, knows_rows: bool) -> bool:
        """Whether the kept schemas of footers tell all that is needed of files, and if all units know their rows."""
        return True

    def selects_units(self) -> bool:
        """Whether `contents` leaves out units, by statistics that only footers have."""
        return False

    def folder_may_match(self, folder: str) -> bool:
        """Whether files in a folder may have units that `contents` selects, by the names in its path."""
        raise NotImplementedError("this format selects no units")

    def find_units(self, files: Iterable[File]) -> UnitTable:
        return FileUnits.of(in_threads(self.contents, files)).unit_table(self.fields)

    def unit(self, file: File, *numbers: int) -> FileUnit:
        return FileUnit(file, **cast("dict[str, Any]", dict(zip(self.fields[1:], numbers, strict=True))))

    def start(self, unit: FileUnit) -> Origin:
        return Origin(unit.file.path, unit.first + 1)

    def weights(self, units: UnitTable) -> Weights:
        return units.weights()

    def length(self, units: UnitTable) -> int | None:
        return units.rows()

    def fraction_before(self, unit: FileUnit, place: Place) -> float:
        before: int = place[-1]
        return before / unit.rows if unit.rows > 0 else 0.0

    def resolved(self: F, files: InputFiles) -> tuple[F, UnitTable | None]:
        """With names and types, and all units: those of an index, if there is one."""
        # Only the order of the index tells which of its files an element is.
        source = files.source
        if isinstance(source, OpenFiles) and source.index is not None and files.has_fixed_order:
            return self._with_index(files, source.index)
        return super().resolved(files)

    def _with_index(self: F, files: InputFiles, index: Index) -> tuple[F, UnitTable | None]:
        """The units of an index. No file is opened, if the index says all that is needed of the files.

        If statistics select units, the footers of those files are read whose folders do not leave them out.
        """
        has_units = index.kind == self.units and cast("OpenFiles", files.source).compression == "infer"
        if not has_units or not self.can_use(index.schemas, knows_rows=index.rows is not None):
            return super().resolved(files)
        heads = {number: FlatHead(path, schema) for number, path, schema in index.first_files()}
        first = next(iter(heads.values())).name
        folders = index.folder_files()
        form = self.fix(iter(heads.values()), [path for path, _ in folders] or [first])
        fixed = form.require_fixed_schema(first)
        columns = {number: fixed.columns_in(head) for number, head in heads.items()}
        for path, number in folders if fixed.folder_types else ():
            fixed.constants(path, columns[number])
        if not form.selects_units():
            return form, IndexedUnits.of(index, self.fields)
        matching = index.files_where(form.folder_may_match)
        parts = (matching[start : start + BLOCK_FILES] for start in range(0, len(matching), BLOCK_FILES))
        units = form.find_units(file for part in parts for file in files.at(part, Context()))
        units.column("file")[:] = matching[units.column("file")]
        return form, units


class OpenFileCache(Generic[T]):
    """Opens the files of units and keeps the last few of them open.

    Args:
        open: opens the file of a unit.
        close: closes what `open` returned.
        keeps_objects: whether that holds no bytes of a file in an object store, so that there may be many of them.
    """

    def __init__(
        self, open: Callable[[FileUnit], T], close: Callable[[T], object], *, keeps_objects: bool = False
    ) -> None:
        self._open = open
        self._close = close
        self._keeps_objects = keeps_objects
        self._tasks: OrderedDict[object, Task[T]] = OrderedDict()

    def file(self, unit: FileUnit) -> T:
        """The open file of a unit."""
        task = self.task(unit)
        try:
            return task.result()
        except BaseException:
            self._tasks.pop(_key(unit), None)  # the next call tries again
            raise

    def task(self, unit: FileUnit) -> Task[T]:
        """The task that opens the file of a unit, for a thread to run."""
        key = _key(unit)
        if key not in self._tasks:
            while len(self._tasks) >= self._room(unit.file):
                self._close_oldest()
            self._tasks[key] = Task(partial(self._open, unit))
        self._tasks.move_to_end(key)
        return self._tasks[key]

    def close(self) -> None:
        while self._tasks:
            self._close_oldest()

    def _room(self, file: File) -> int:
        if self._keeps_objects and file.is_object():
            return _MAX_OPEN_OBJECTS
        # Read-ahead opens further remote files.
        return _MAX_OPEN_FILES if file.is_local() else _MAX_OPEN_FILES + ITEMS_AHEAD

    def _close_oldest(self) -> None:
        _, task = self._tasks.popitem(last=False)
        task.cancel()
        if task.result_if_done is not None:
            self._close(task.result_if_done)


def _key(unit: FileUnit) -> object:
    return *file_key(unit.file), unit.seal
