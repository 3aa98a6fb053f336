"""`Index`: a version of an index, whose tables and blocks are read when they are needed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ...core.arrow import numpy_array
from ...core.lazy import pa
from ...core.rows import Indices, index_array
from ...errors import DataError, MissingError, SourceError, shown_path
from ..file import File
from ..file_units import Numbers, UnitTable, by_file
from ..filesystem import describe, locate
from ..listing import ListedPath, Sums
from ..manifest import join_path
from .layout import (
    FILES,
    Content,
    FileBlock,
    Folders,
    Version,
    block_schema,
    bounds_fields,
    granule_size,
    table_schema,
    version_digest,
    version_name,
    version_number,
)


class Bounds(NamedTuple):
    """The least and the greatest values of a column in several files, as Arrow arrays; null if not known."""

    low: Any
    high: Any


MAX_BLOCKS = 64
"""The blocks that a process keeps, those used last: about 30 MB."""
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Index:
    """A version of an index of files. It is small, whatever the number of files: it travels as an address.

    Attributes:
        address: the path or URL of its folder.
        number: of the version.
        digest: of the version, 32 hexadecimal digits: another one has other files, sizes or units.
    """

    address: str
    number: int
    digest: str
    filesystem: object = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _kept: OrderedDict[int, FileBlock] = field(default_factory=OrderedDict, init=False, repr=False)

    @property
    def files(self) -> int:
        """The number of files."""
        return self.version.files

    @property
    def units(self) -> int:
        """The number of units: row groups, record batches or stripes that have rows, or files as a whole."""
        return self.version.units

    @property
    def rows(self) -> int | None:
        """The number of rows of all files; None if footers do not say it."""
        return self.version.rows

    @property
    def bytes(self) -> int | None:
        """The bytes of all files; None if the storage does not say them."""
        return self.version.bytes

    def __repr__(self) -> str:
        version = self.version
        facts = [f"{version.files} files"]
        facts += [] if version.kind == FILES else [f"{version.units} {version.kind.replace('_', ' ')}"]
        facts += [] if version.rows is None else [f"{version.rows} rows"]
        facts += [] if version.bytes is None else [f"{version.bytes} bytes"]
        return f"Index({shown_path(self.address)!r}, version {self.number}: {', '.join(facts)})"

    def __reduce__(self) -> tuple[object, ...]:
        return Index, (self.address, self.number, self.digest, self.filesystem)

    @staticmethod
    def open(address: str, filesystem: object = None, number: int | None = None) -> Index:
        """A version of an index; by default the newest.

        Raises:
            MissingError: there is no index, or no such version; the message names those there are.
            DataError: the version is of a newer format, or damaged.
            SourceError: it cannot be read.
        """
        numbers = versions(address, filesystem)
        if number is None and numbers:
            number = numbers[-1]
        if number is None or number not in numbers:
            there = ", ".join(map(str, numbers[-8:])) or "none"
            what = "index" if number is None else f"version {number}"
            raise MissingError(f"{shown_path(address)} has no {what}; the versions there are: {there}")
        version = _read_version(address, number, filesystem)
        opened = Index(address, number, version.digest, filesystem)
        vars(opened)["version"] = version
        return opened

    @cached_property
    def version(self) -> Version:
        """The text of the version.

        Raises:
            SourceError: it is not there any more, or cannot be read.
            DataError: another version has its number now, or it is damaged.
        """
        version = _read_version(self.address, self.number, self.filesystem)
        if version.digest != self.digest:
            raise DataError(
                f"{self.name} is another version than the one that was opened: its digest was {self.digest} and is "
                f"{version.digest}"
            )
        return version

    @property
    def name(self) -> str:
        """The version, for errors."""
        return f"version {self.number} of {shown_path(self.address)}"

    # Files

    def __len__(self) -> int:
        return self.version.files

    @property
    def files_digest(self) -> str:
        """The digest of the same files as a listing without an index has it."""
        return self.version.listing

    def files_at(self, indices: Indices) -> list[ListedPath]:
        """The files at `indices`."""
        listed: dict[int, ListedPath] = {}
        places = index_array(indices)
        for number, inside, inside_places in self._by_block(places, self._table.first):
            block = self.block(number)
            values = block.paths_at(inside.tolist()), block.sizes[inside].tolist(), block.changed[inside].tolist()
            listed |= zip(inside_places, map(ListedPath.of, *values), strict=True)
        return [listed[place] for place in range(len(places))]

    def path(self, index: int) -> str:
        """The path of a file."""
        return str(self.files_at(range(index, index + 1))[0])

    def bytes_of_files(self) -> Sums:
        """The bytes of neighbouring files."""
        version = self.version
        if version.kind == FILES:
            return self.weights()
        return Sums(self._read_sums(version.sizes), granule_size(version.files))

    def bytes_of(self, files: range) -> Numbers:
        """The bytes of each of some files."""
        return self._column(files, self._table.first, lambda block: block.sizes)

    def folders(self) -> list[str]:
        """The folders of the files."""
        return sorted({str(path).rpartition("/")[0] for block in self.blocks() for path in block.paths()})

    # Units

    @property
    def kind(self) -> str:
        """What units are: "files", "row_groups", "record_batches" or "stripes"."""
        return self.version.kind

    def weights(self) -> Sums:
        """The rows of neighbouring units, or the bytes of neighbouring files if these are the units."""
        return Sums(self._read_sums(self.version.weights), self.version.granule)

    def units_at(self, indices: Numbers, fields: tuple[str, ...]) -> Numbers:
        """Units by these fields, a row each; a file is its position in the index."""
        rows = np.zeros((len(indices), len(fields)), np.int64)
        file = fields.index("file")
        for number, inside, places in self._by_block(indices, self._table.first_unit):
            units = self.block(number).units
            assert units is not None, "files as a whole have no footers"
            part = units.units_at(fields, inside)
            part[:, file] += self._table.first[number]
            rows[places] = part
        return rows

    def weights_of_units(self, units: range) -> Numbers:
        """The rows of each of some units, or the bytes of files if these are the units."""
        return self._column(units, self._table.first_unit, lambda block: block.weights)

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the files, each once."""
        if not self.version.schemas:
            return []
        texts = cast("list[Any]", self._schema_table["schema"].to_pylist())
        return [pa.ipc.read_schema(pa.py_buffer(text)) for text in texts]

    @cached_property
    def _schema_table(self) -> pa.Table:
        return self._read_table(self.version.schemas)

    def first_files(self) -> list[tuple[int, str, pa.Schema]]:
        """The number of each schema, the path of the first file that has it, and the schema; first that of file 0."""
        paths = cast("list[str | None]", self._schema_table["path"].to_pylist())
        files = [(n, path, self.schemas[n]) for n, path in enumerate(paths) if path is not None]
        if len(files) > 1:
            units = self.block(0).units
            assert units is not None, "only footers have schemas"
            first = int(units.schema_numbers[0])
            files.sort(key=lambda file: file[0] != first)
        return files

    def folder_files(self) -> list[tuple[str, int]]:
        """The path of the first file of each folder and schema, and the number of the schema.

        There are none if the names of folders give no columns.
        """
        if not self.version.folders:
            return []
        table = self._read_table(self.version.folders)
        paths, schemas = cast("tuple[Any, Any]", (table["path"], table["schema"]))
        return list(zip(paths.to_pylist(), schemas.to_pylist(), strict=True))

    # Blocks

    def check(self) -> None:
        """Read all blocks and tables.

        Raises:
            SourceError: one of them cannot be read.
            DataError: one of them is damaged.
        """
        files = sum(len(block) for block in self.blocks())
        sums = self.weights(), self.bytes_of_files()
        counts = self.version.units, self.version.files
        if files != self.version.files or any(
            len(part.values) != -(-count // part.granule) for part, count in zip(sums, counts, strict=True)
        ):
            raise DataError(f"{self.name} is damaged: its tables do not have as many files and units as it says")
        self.folder_files()

    def blocks(self) -> Iterator[FileBlock]:
        """All blocks, in order. None of them is kept."""
        return (self._read_block(number) for number in range(len(self._table.first)))

    def block(self, number: int) -> FileBlock:
        """A block. A process keeps the last ones.

        Raises:
            SourceError: it cannot be read.
            DataError: it is damaged; the message names the file and the byte.
        """
        with self._lock:
            kept = self._kept.get(number)
            if kept is not None:
                self._kept.move_to_end(number)
                return kept
        block = self._read_block(number)
        with self._lock:
            self._kept[number] = block
            while len(self._kept) > MAX_BLOCKS:
                self._kept.popitem(last=False)
        return block

    def files_where(self, may_match: Callable[[Mapping[str, Bounds], Folders], npt.NDArray[np.bool_]]) -> Numbers:
        """The numbers of the files that may have certain rows.

        Args:
            may_match: tells by the bounds of the columns of `statistics` and by the folders, of several blocks or files
                each, which of these may have such rows.
        """
        names, table = self.version.statistics, self._table
        folders = Folders(table.prefixes.to_pylist(), np.arange(len(table.first)))
        files = [np.zeros(0, np.int64)]
        for number in np.flatnonzero(may_match(_by_column(names, table.bounds), folders)).tolist():
            block = self._read_block(number)
            matches = may_match(_by_column(names, block.bounds), block.folders())
            files.append(table.first[number] + np.flatnonzero(matches))
        return np.concatenate(files)

    @cached_property
    def _bounds_fields(self) -> list[pa.Field[Any]]:
        """The fields of bounds. Their types are those of the first file that ever was in the index."""
        names = self.version.statistics
        return bounds_fields(names, [self.schemas[0].field(name) for name in names for _ in range(2)])

    @property
    def entries(self) -> BlockTable:
        """The table of blocks."""
        return self._table

    def _read_block(self, number: int) -> FileBlock:
        table = self._table
        data, offset, length = (
            self.version.data[table.data[number]],
            int(table.offset[number]),
            int(table.length[number]),
        )

        def parse(content: Content) -> FileBlock:
            schema = block_schema(self._bounds_fields, has_units=self.kind != FILES)
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(content), schema)
            batch.validate(full=True)
            block = FileBlock.of(batch, table.prefix(number), self.schemas)
            if block.digest(self.version.root) != table.digest(number):
                raise DataError("its digest is another one")
            return block

        return self._parsed(
            f"{data}, block {number} at byte {offset},", self._read(data, range(offset, offset + length)), parse
        )

    def _column(self, rows: range, firsts: Numbers, values: Callable[[FileBlock], Numbers]) -> Numbers:
        """Values of neighbouring rows; `firsts` are the first rows of the blocks."""
        if not rows:
            return np.zeros(0, np.int64)
        start, last = (int(n) for n in np.searchsorted(firsts, [rows.start, rows.stop - 1], "right") - 1)
        numbers = range(start, last + 1)
        read = self.block if len(numbers) <= MAX_BLOCKS else self._read_block
        column = np.concatenate([values(read(number)) for number in numbers])
        begin = rows.start - int(firsts[start])
        return column[begin : begin + len(rows)]

    def _by_block(self, places: Numbers, firsts: Numbers) -> Iterator[tuple[int, Numbers, list[int]]]:
        """Positions by their block: its number, the places inside it, and the places among `places`."""
        if not len(places):
            return
        owners = np.searchsorted(firsts, places, "right") - 1
        order = np.argsort(owners, kind="stable")
        cuts = np.flatnonzero(np.diff(owners[order])) + 1
        for part in np.split(order, cuts):
            owner = int(owners[part[0]])
            yield owner, places[part] - firsts[owner], part.tolist()

    @cached_property
    def _table(self) -> BlockTable:

        table = self._read_table(self.version.blocks)
        if table.schema != table_schema(self._bounds_fields):
            raise DataError(f"{self.name} is damaged: {self.version.blocks} has other columns than a table of blocks")
        blocks = BlockTable.of(table.combine_chunks())
        if version_digest(blocks.digests.to_pylist()) != self.digest:
            raise DataError(f"{self.name} is damaged: {self.version.blocks} does not fit its digest")
        return blocks

    # Files of the index

    def _read_sums(self, name: str) -> Numbers:
        return cast("Numbers", numpy_array(self._read_table(name)["weight"]))

    def _read_table(self, name: str) -> pa.Table:
        def parse(content: Content) -> pa.Table:
            table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
            table.validate(full=True)
            return table

        return self._parsed(name, self._read(name, None), parse)

    def _read(self, name: str, part: range | None) -> Content:
        return read_file(join_path(self.address, name, self.filesystem), self.filesystem, part)

    def _parsed(self, what: str, content: Content, parse: Callable[[Content], T]) -> T:
        try:
            return parse(content)
        except (pa.ArrowException, OSError, EOFError, KeyError, ValueError, IndexError) as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{self.name} is damaged: {what} cannot be read: {reason}; remove the version, or make the index again"
            ) from error


@dataclass(frozen=True, eq=False)
class IndexedUnits(UnitTable):
    """The units of an index; only the blocks that are asked for are read."""

    index: Index

    @staticmethod
    def of(index: Index, fields: tuple[str, ...]) -> IndexedUnits:
        """All units of an index, by these fields."""
        return IndexedUnits(fields, np.zeros((0, len(fields)), np.int64), index)

    def __len__(self) -> int:
        return self.index.units

    def column(self, name: str) -> Numbers:
        return self.index.units_at(np.arange(len(self)), self.fields)[:, self.fields.index(name)]

    def sums(self) -> Sums:
        return self.index.weights()

    def rows_of(self, units: range) -> Numbers:
        return self.index.weights_of_units(units)

    def rows(self) -> int | None:
        return self.index.rows

    def digest(self) -> str:
        return self.index.version.identity

    def at(self, indices: Indices) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
        return by_file(self.index.units_at(index_array(indices), self.fields))


class BlockTable(NamedTuple):
    """The table of blocks.

    Attributes:
        data, offset, length: the place of each block: the number of its file, and the bytes there.
        first, first_unit: the number of its first file, and of its first unit.
        files, sizes, rows: the numbers of its files, bytes and rows.
        prefixes, digests: Arrow arrays.
        bounds: as `FileBlock` has them of a file.
    """

    data: Numbers
    offset: Numbers
    length: Numbers
    first: Numbers
    first_unit: Numbers
    files: Numbers
    sizes: Numbers
    rows: Numbers
    prefixes: Any
    digests: Any
    bounds: Sequence[Any]

    @staticmethod
    def of(table: pa.Table) -> BlockTable:
        columns: list[Any] = [
            pa.concat_arrays(column.chunks) if column.num_chunks else column for column in table.columns
        ]
        prefixes, digests, *bounds = columns[8:]
        numbers = [numpy_array(column).astype(np.int64) for column in columns[:8]]
        return BlockTable._make([*numbers, prefixes, digests, bounds])

    def prefix(self, number: int) -> str:
        """The beginning of the paths in a block."""
        return str(self.prefixes[number])

    def digest(self, number: int) -> bytes:
        """The digest of a block."""
        return cast("bytes", self.digests[number].as_py())


def _by_column(names: Sequence[str], bounds: Sequence[Any]) -> dict[str, Bounds]:
    return dict(zip(names, map(Bounds, bounds[::2], bounds[1::2]), strict=True))


def versions(address: str, filesystem: object = None) -> list[int]:
    """The numbers of the versions of an index; none if there is no such folder.

    Raises:
        SourceError: the folder cannot be listed.
    """
    from pyarrow.fs import FileSelector

    place = locate(address, filesystem)
    try:
        infos = place.filesystem.get_file_info(FileSelector(place.path, allow_not_found=True))
    except OSError as error:
        raise SourceError(f"{shown_path(address)} cannot be listed: {describe(error)}") from error
    numbers = (version_number(str(info.base_name)) for info in infos)
    return sorted(number for number in numbers if number is not None)


def read_file(path: str, filesystem: object, part: range | None = None) -> bytes:
    """The bytes of a file, or a part of them.

    Raises:
        SourceError: it cannot be read, or is shorter.
    """
    file = File(path, filesystem=filesystem, compression=None)
    with file.stream(None, part) as stream:
        if part is None:
            return stream.read()
        stream.seek(part.start)
        return stream.read(len(part))


def _read_version(address: str, number: int, filesystem: object) -> Version:
    path = join_path(address, version_name(number), filesystem)
    version = Version.of(read_file(path, filesystem), path)
    if version.number != number:
        raise DataError(f"{shown_path(path)} is damaged: it says that it is version {version.number}")
    return version
