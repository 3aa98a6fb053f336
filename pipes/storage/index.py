"""An index: the files of a listing, and what their footers say, in a Parquet file for each version.

An index is a folder whose name ends with `.index`. `v<N>.parquet` is version N: a row for each file, in order, in row
groups of neighbouring files. The metadata of the Parquet file have what holds of the version as a whole, as JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from ..core.arrow import arrow_array, numpy_array
from ..core.lazy import pa, pc
from ..core.operator import Weights
from ..core.process import PerProcess
from ..core.rows import Indices, index_array
from ..errors import DataError, MissingError, SourceError, shown_cause, shown_path
from .file import File
from .file_units import UNKNOWN, FileContents, FileUnits, Numbers, UnitTable, by_file
from .filesystem import describe, locate
from .listing import ListedPath, common_prefix
from .manifest import TEMPORARY_SUFFIX, join_path, open_output

SUFFIX = ".index"
FORMAT_VERSION = 2
BLOCK_FILES = 4096
"""The files of a block. Some 110 kB, which one request fetches."""
MAX_EXACT_UNITS = 2**20
"""Up to so many units, their order and division are those of the units; above, of granules."""
MAX_BLOCKS = 64
"""The blocks that a process keeps, those used last: about 30 MB."""
FILES = "files"
"""The `kind` of an index whose units are files as a whole."""
_KEY, _CHECKSUM = b"feedpipe index", b"checksum"
_WEIGHTS, _SIZES, _FOLDERS = b"weights", b"sizes", b"folders"
"""The keys of the metadata; the checksum is that of the others. What few runs need has a key of its own: the sums of
the rows of neighbouring units and of the bytes of files, and the first file of each folder and schema if the name of a
folder gives a column."""


def granule_size(units: int) -> int:
    """The number of neighbouring units that are dealt together: about 2**20 granules in all, from 16 units each."""
    return 1 if units <= MAX_EXACT_UNITS else max(16, 1 << ((units - 1) // MAX_EXACT_UNITS).bit_length())


@dataclass(frozen=True)
class Version:
    """What holds of a version as a whole.

    Attributes:
        number: of this version.
        call, selected: the call that selects the files, and the digest of its arguments.
        above: the folder whose name, and those above it, are no columns; see `ListedPath.root`.
        kind: of the units: "files", "row_groups" or "record_batches".
        listing: the digest of the listing.
        files, units, rows, bytes: of all files; None if a number is not known.
        identity: the digest of all units; empty if these are files as a whole.
        digest: of the listing, the units and the schemas; a copy elsewhere has the same.
        first_units: the number of the first unit of each block.
        schemas: those of the files, each with the path of the first file that has it.
    """

    number: int
    call: str
    selected: str
    kind: str
    listing: str
    above: str = ""
    files: int = 0
    units: int = 0
    rows: int | None = None
    bytes: int | None = None
    identity: str = ""
    digest: str = ""
    first_units: tuple[int, ...] = ()
    schemas: tuple[tuple[str, str | None], ...] = ()

    @staticmethod
    def of(metadata: Mapping[Any, Any], schema: pa.Schema, path: str) -> Version:
        """The version with these metadata; a `DataError` if they are of none, of a newer format, or damaged."""
        try:
            values: Any = json.loads(metadata.get(_KEY, b""))
            version = values.pop("version")
        except (ValueError, RecursionError, AttributeError, KeyError):
            raise DataError(f"{shown_path(path)} is no version of an index") from None
        if version != FORMAT_VERSION:
            raise DataError(
                f"{shown_path(path)} is of version {version!r} of the format; this feedpipe reads version "
                f"{FORMAT_VERSION}"
            )
        if metadata.get(_CHECKSUM) != _checksum(metadata, schema):
            raise DataError(f"{shown_path(path)} is damaged: its metadata have another checksum")
        for name in ("first_units", "schemas"):
            values[name] = tuple(tuple(item) if isinstance(item, list) else item for item in values[name])
        return Version(**{known.name: values[known.name] for known in fields(Version)})


@dataclass(frozen=True, eq=False)
class FileBlock:
    """Some neighbouring files: a row each, as `block_schema` has them. The schemas are those of the whole index."""

    batch: pa.RecordBatch
    units: FileUnits | None

    @staticmethod
    def of(paths: Any, sizes: Numbers, changed: Numbers, units: FileUnits | None = None) -> FileBlock:
        """The block of files with these paths."""
        columns: dict[str, Any] = {"path": paths, "bytes": arrow_array(sizes), "changed": arrow_array(changed)}
        if units is not None:
            offsets = arrow_array(np.append(0, np.cumsum(units.counts)), pa.int64())
            columns |= {
                "seal": arrow_array(units.seals),
                "schema": arrow_array(units.schema_numbers),
                "footer": arrow_array(units.footer_bytes),
                "unit_rows": pa.LargeListArray.from_arrays(offsets, arrow_array(units.rows)),
                "unit_compressed": pa.LargeListArray.from_arrays(offsets, arrow_array(units.compressed)),
            }
        return FileBlock(pa.RecordBatch.from_pydict(columns), units)

    @staticmethod
    def read(batch: pa.RecordBatch, schemas: Sequence[pa.Schema]) -> FileBlock:
        if "seal" not in batch.schema.names:
            return FileBlock(batch, None)
        schema, seals, footers, rows, compressed = (
            cast("Any", batch[name]) for name in ("schema", "seal", "footer", "unit_rows", "unit_compressed")
        )
        flat = (schema, seals, footers, rows.value_lengths(), rows.flatten(), compressed.flatten())
        return FileBlock(batch, FileUnits(schemas, *(np.asarray(numpy_array(column), np.int64) for column in flat)))

    def __len__(self) -> int:
        return self.batch.num_rows

    @property
    def paths(self) -> Any:
        return self.batch["path"]

    @property
    def sizes(self) -> Numbers:
        """The bytes of each file; -1 if the storage does not say."""
        return numpy_array(self.batch["bytes"])

    @property
    def changed(self) -> Numbers:
        """When each file was changed, in milliseconds since 1970; 0 if the storage does not say."""
        return numpy_array(self.batch["changed"])

    @property
    def weights(self) -> Numbers:
        """The weight of each unit: its rows, or the bytes of a file."""
        return self.sizes if self.units is None else self.units.rows[self.units.rows != 0]

    def folders(self) -> tuple[list[str], Numbers]:
        """The folders of the files, the beginnings of their paths; for each file the number of its folder."""
        call: Any = pc
        folders = call.replace_substring_regex(self.paths, "[^/]*$", "").dictionary_encode()
        return folders.dictionary.to_pylist(), numpy_array(folders.indices).astype(np.int64)

    def contents(self, place: int) -> FileContents:
        """What the footer of a file says."""
        assert self.units is not None, "only files with footers have contents"
        return self.units.contents(place)


# A version that is read


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
    _reading: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _file: PerProcess[Any] = field(default_factory=PerProcess, init=False, repr=False)

    @property
    def files(self) -> int:
        """The number of files."""
        return self.version.files

    @property
    def units(self) -> int:
        """The number of units: row groups or record batches that have rows, or files as a whole."""
        return self.version.units

    @property
    def rows(self) -> int | None:
        """The number of rows of all files; None if footers do not say it."""
        return self.version.rows

    @property
    def bytes(self) -> int | None:
        """The bytes of all files; None if the storage does not say them."""
        return self.version.bytes

    @property
    def kind(self) -> str:
        """What units are: "files", "row_groups" or "record_batches"."""
        return self.version.kind

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
        opened = Index(address, number, "", filesystem)
        return Index(address, number, opened.version.digest, filesystem)

    @property
    def name(self) -> str:
        """The version, for errors."""
        return f"version {self.number} of {shown_path(self.address)}"

    @property
    def _path(self) -> str:
        return join_path(self.address, _file_name(self.number), self.filesystem)

    @cached_property
    def _metadata(self) -> Any:
        return self._parquet(lambda file: file.metadata)

    @cached_property
    def version(self) -> Version:
        """What holds of the version as a whole; a `DataError` if another version has its number now."""
        version = Version.of(self._metadata.metadata or {}, self._parquet(lambda file: file.schema_arrow), self._path)
        if self.digest and version.digest != self.digest:
            raise DataError(
                f"{self.name} is another version than the one that was opened: its digest was {self.digest} and is "
                f"{version.digest}"
            )
        return version

    def _parquet(self, use: Callable[[Any], Any]) -> Any:
        """What a function finds in the Parquet file, which each process opens once."""
        try:
            with self._reading:
                return use(self._file.get(self._open_file))
        except SourceError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:  # a column of another type
            reason = " ".join(str(error).split())
            raise DataError(f"{self.name} is damaged: {reason}; remove the version, or make the index again") from error

    def _open_file(self) -> Any:
        from pyarrow.parquet import ParquetFile

        source: Any = File(self._path, filesystem=self.filesystem, compression=None).open(None).detach()
        return ParquetFile(source, page_checksum_verification=True)

    # Files

    def __len__(self) -> int:
        return self.version.files

    @cached_property
    def _above(self) -> int:
        return len(self.version.above)

    def _listed(self, path: str) -> ListedPath:
        return ListedPath.of(path, -1, 0, self._above)

    @property
    def files_digest(self) -> str:
        """The digest of the same files as a listing without an index has it."""
        return self.version.listing

    def files_at(self, indices: Indices) -> list[ListedPath]:
        """The files at `indices`."""
        listed: dict[int, ListedPath] = {}
        for number, inside, places in self._by_block(index_array(indices), self._firsts):
            rows: Any = self.block(number).batch.select(["path", "bytes", "changed"]).take(arrow_array(inside))
            for place, row in zip(places, rows.to_pylist(), strict=True):
                listed[place] = ListedPath.of(row["path"], row["bytes"], row["changed"], self._above)
        return [listed[place] for place in range(len(listed))]

    def path(self, index: int) -> str:
        """The path of a file."""
        return str(self.files_at(range(index, index + 1))[0])

    def bytes_of_files(self) -> Weights:
        """The bytes of neighbouring files."""
        return Weights(self._numbers(_SIZES), granule=granule_size(self.files), each=self._bytes_of)

    def _bytes_of(self, files: range) -> Numbers:
        return self._column(files, self._firsts, lambda block: block.sizes)

    def folders(self) -> list[str]:
        """The folders of the files."""
        return sorted({name.rpartition("/")[0] for block in self.blocks() for name in block.folders()[0]})

    # Units

    def weights(self) -> Weights:
        """The rows of neighbouring units, or the bytes of neighbouring files if these are the units."""
        return Weights(self._numbers(_WEIGHTS), self.kind != FILES, granule_size(self.units), self._weights_of_units)

    def units_at(self, indices: Numbers, fields: tuple[str, ...]) -> Numbers:
        """Units by these fields, a row each; a file is its position in the index."""
        rows = np.zeros((len(indices), len(fields)), np.int64)
        for number, inside, places in self._by_block(indices, np.array(self.version.first_units)):
            units = self.block(number).units
            assert units is not None, "files as a whole have no footers"
            part = units.units_at(fields, inside)
            part[:, fields.index("file")] += self._firsts[number]
            rows[places] = part
        return rows

    def _weights_of_units(self, units: range) -> Numbers:
        return self._column(units, np.array(self.version.first_units), lambda block: block.weights)

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the files, each once."""
        texts = (base64.b64decode(text) for text, _ in self.version.schemas)
        return [pa.ipc.read_schema(pa.py_buffer(text)) for text in texts]

    def first_files(self) -> list[tuple[int, str, pa.Schema]]:
        """The number of each schema, the path of the first file that has it, and the schema; first that of file 0."""
        files: list[tuple[int, str, pa.Schema]] = [
            (number, self._listed(path), self.schemas[number])
            for number, (_, path) in enumerate(self.version.schemas)
            if path is not None
        ]
        if len(files) > 1:
            first = self.block(0).batch["schema"][0].as_py()
            files.sort(key=lambda file: file[0] != first)
        return files

    def folder_files(self) -> list[tuple[str, int]]:
        """The path of the first file of each folder and schema, and the number of the schema.

        There are none if the names of folders give no columns.
        """
        kept = json.loads(self._metadata.metadata.get(_FOLDERS, b"[]"))
        return [(self._listed(path), schema) for path, schema in kept]

    def _numbers(self, key: Any) -> Numbers:
        return np.frombuffer(base64.b64decode(self._metadata.metadata[key]), "<i8").astype(np.int64)

    # Blocks

    @cached_property
    def _firsts(self) -> Numbers:
        """The number of the first file of each block."""
        groups = range(self._metadata.num_row_groups)
        return np.cumsum([0, *(self._metadata.row_group(k).num_rows for k in groups)], dtype=np.int64)[:-1]

    def check(self) -> None:
        """Read all blocks; raise a `DataError` if one of them is damaged."""
        files = sum(map(len, self.blocks()))  # Parquet has a checksum of each page
        if files != self.version.files:
            raise DataError(f"{self.name} is damaged: it has {files} files and not {self.version.files}")

    def blocks(self) -> Iterator[FileBlock]:
        """All blocks, in order. None of them is kept."""
        return (self._read_block(number) for number in range(len(self._firsts)))

    def block(self, number: int) -> FileBlock:
        """A block. A process keeps the last ones."""
        return _kept_block(self, number)

    def _read_block(self, number: int) -> FileBlock:
        schemas = self.schemas

        def read(file: Any) -> FileBlock:
            table = file.read_row_group(number, use_threads=False)
            return FileBlock.read(table.combine_chunks().to_batches()[0], schemas)

        return cast("FileBlock", self._parquet(read))

    def files_where(self, may_match: Callable[[str], bool]) -> Numbers:
        """The numbers of the files that may have certain rows; `may_match` tells it of the beginning of their paths."""
        files = [np.zeros(0, np.int64)]
        for number, prefix in enumerate(self._prefixes()):
            if may_match(self._listed(prefix)):
                names, numbers = self._read_block(number).folders()
                matches = np.array([may_match(self._listed(name)) for name in names], np.bool_)
                files.append(self._firsts[number] + np.flatnonzero(matches[numbers]))
        return np.concatenate(files)

    def _prefixes(self) -> Iterator[str]:
        """The beginning that all paths of each block have in common."""
        place = self._metadata.schema.names.index("path")
        for number in range(len(self._firsts)):
            bounds = self._metadata.row_group(number).column(place).statistics
            yield common_prefix(bounds.min, bounds.max) if bounds is not None and bounds.has_min_max else ""

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
        owners = np.searchsorted(firsts, places, "right") - 1
        order = np.argsort(owners, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1) if len(places) else ():
            owner = int(owners[part[0]])
            yield owner, places[part] - firsts[owner], part.tolist()


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

    def weights(self) -> Weights:
        return self.index.weights()

    def rows(self) -> int | None:
        return self.index.rows

    def digest(self) -> str:
        return self.index.version.identity

    def part(self, files: range) -> None:
        return None

    def at(self, indices: Indices) -> tuple[Numbers, Iterator[tuple[int, list[int]]]]:
        return by_file(self.index.units_at(index_array(indices), self.fields))


@lru_cache(MAX_BLOCKS)
def _kept_block(index: Index, number: int) -> FileBlock:
    return index._read_block(number)  # pyright: ignore[reportPrivateUsage]


def _file_name(number: int) -> str:
    return f"v{number}.parquet"


def versions(address: str, filesystem: object = None) -> list[int]:
    """The numbers of the versions of an index; none if there is no such folder."""
    from pyarrow.fs import FileSelector

    place = locate(address, filesystem)
    try:
        infos = place.filesystem.get_file_info(FileSelector(place.path, allow_not_found=True))
    except OSError as error:
        raise SourceError(f"{shown_path(address)} cannot be listed: {describe(error)}") from error
    names = (re.fullmatch(r"v([1-9]\d*)\.parquet", str(info.base_name), re.ASCII) for info in infos)
    return sorted(int(name[1]) for name in names if name)


def remove_versions(address: str, filesystem: object, keep: int) -> list[int]:
    """Remove all versions of an index but the last `keep` ones; return their numbers."""
    newest = Index.open(address, filesystem).number
    old = [number for number in versions(address, filesystem) if number <= newest][:-keep]
    for number in old:
        path = join_path(address, _file_name(number), filesystem)
        place = locate(path, filesystem)
        try:
            place.filesystem.delete_file(place.path)
        except FileNotFoundError:  # another process has removed it
            pass
        except OSError as error:
            raise SourceError(f"{shown_path(path)} cannot be removed: {describe(error)}") from shown_cause(error, path)
    return old


# A version that is written


def write_version(
    version: Version,
    address: str,
    filesystem: object,
    blocks: Iterable[FileBlock],
    schemas: Sequence[pa.Schema],
    unit_fields: tuple[str, ...],
) -> Version | None:
    """Write a version of an index, which gets its name when it is complete.

    Args:
        version: all of it but what follows from the blocks.
        address, filesystem: the folder, and the file system of it.
        blocks: in order.
        schemas: those of the blocks; read after the last block.
        unit_fields: those of the units that states are checked against.

    Returns:
        The version as it was written; None if another writer has written one of that number.
    """
    from pyarrow.parquet import ParquetWriter

    place = locate(address, filesystem)
    try:
        place.filesystem.create_dir(place.path)
    except OSError as error:
        raise SourceError(f"{shown_path(address)} cannot be written to: {describe(error)}") from shown_cause(
            error, address
        )
    sums = _Sums(unit_fields)
    temporary = join_path(address, f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}", filesystem)
    with open_output(temporary, filesystem) as stream:
        writer: Any = None
        for block in blocks:
            if writer is None:
                options: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"path": "DELTA_BYTE_ARRAY"}}
                options["use_compliant_nested_type"] = False  # so that types are read as they were written
                writer = ParquetWriter(
                    cast("Any", stream), block.batch.schema, compression="zstd", write_page_checksum=True, **options
                )
            writer.write_batch(block.batch, row_group_size=len(block))
            sums.add(block)
        written = sums.filled(version, schemas)
        text = json.dumps({"version": FORMAT_VERSION, **asdict(written)}).encode()
        metadata = {_KEY: text, **sums.metadata()}
        writer.add_key_value_metadata({**metadata, _CHECKSUM: _checksum(metadata, writer.schema)})
        writer.close()
    return (
        written if _publish(temporary, join_path(address, _file_name(version.number), filesystem), filesystem) else None
    )


def _publish(temporary: str, path: str, filesystem: object) -> bool:
    """Give a file its name, unless there is one of that name.

    A local folder decides between two writers at once. Object stores have no such operation here: the last one wins,
    and the digest tells a reader of the other version.
    """
    old, new = locate(temporary, filesystem), locate(path, filesystem)
    try:
        if new.filesystem.type_name == "local":
            os.link(old.path, new.path)
        elif new.filesystem.get_file_info([new.path])[0].type.name == "NotFound":
            new.filesystem.move(old.path, new.path)
        else:
            return False
    except FileExistsError:
        return False
    except OSError as error:
        raise SourceError(f"{shown_path(path)} cannot be written: {describe(error)}") from shown_cause(error, path)
    finally:
        with suppress(OSError):
            old.filesystem.delete_file(old.path)
    return True


class _Sums:
    """What follows from the blocks of a version; `unit_fields` are those that states are checked against."""

    def __init__(self, unit_fields: tuple[str, ...]) -> None:
        self._fields = unit_fields
        self._first_units: list[int] = []
        self._weights, self._sizes = list[Numbers](), list[Numbers]()
        self._folders: dict[tuple[str, int], str] = {}  # the first path of each folder and schema
        self._schema_files: dict[int, str] = {}
        self._files = self._units = 0
        self._identity = hashlib.blake2b(digest_size=16)

    def add(self, block: FileBlock) -> None:
        self._first_units.append(self._units)
        self._weights.append(block.weights)
        self._sizes.append(block.sizes)
        schemas = np.zeros(len(block), np.int64)
        if block.units is not None:
            schemas = block.units.schema_numbers
            numbers = block.units.unit_table(self._fields).numbers
            numbers[:, self._fields.index("file")] += self._files
            self._identity.update(numbers.tobytes())
        names, codes = block.folders()
        for first in np.unique(codes * (int(schemas.max()) + 1) + schemas, return_index=True)[1].tolist():
            schema, path = int(schemas[first]), str(block.paths[first])
            self._folders.setdefault((names[int(codes[first])], schema), path)
            self._schema_files.setdefault(schema, path)
        self._files += len(block)
        self._units += len(self._weights[-1])

    def filled(self, version: Version, schemas: Sequence[pa.Schema]) -> Version:
        """The version with all that follows from its blocks."""
        weights, sizes = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (self._weights, self._sizes))
        has_units = version.kind != FILES
        texts = [base64.b64encode(schema.serialize().to_pybytes()).decode() for schema in schemas]
        content = json.dumps([version.listing, self._identity.hexdigest(), texts])
        return replace(
            version,
            files=self._files,
            units=self._units,
            bytes=None if (sizes < 0).any() else int(sizes.sum()),
            rows=int(weights.sum()) if has_units and not (weights == UNKNOWN).any() else None,
            identity=self._identity.hexdigest() if has_units else "",
            digest=hashlib.blake2b(content.encode(), digest_size=16).hexdigest(),
            first_units=tuple(self._first_units),
            schemas=tuple((text, self._schema_files.get(number)) for number, text in enumerate(texts)),
        )

    def metadata(self) -> dict[bytes, bytes]:
        """What few runs need."""
        folders = [[path, schema] for (_, schema), path in self._folders.items()]
        sums = {_WEIGHTS: (self._weights, self._units), _SIZES: (self._sizes, self._files)}
        texts = {key: _text(_granules(np.concatenate(parts), granule_size(n))) for key, (parts, n) in sums.items()}
        return {
            **texts,
            _FOLDERS: json.dumps(folders if any("=" in folder for folder, _ in self._folders) else []).encode(),
        }


def _checksum(metadata: Mapping[bytes, bytes], schema: pa.Schema) -> bytes:
    """Parquet has checksums of pages, but none of its metadata and its columns."""
    digest = hashlib.blake2b(str([(field.name, str(field.type)) for field in schema]).encode(), digest_size=16)
    for key in (_KEY, _WEIGHTS, _SIZES, _FOLDERS):
        value = metadata.get(key, b"")
        digest.update(len(value).to_bytes(8, "little") + value)
    return digest.hexdigest().encode()


def _text(numbers: Numbers) -> bytes:
    return base64.b64encode(numbers.astype("<i8").tobytes())


def _granules(values: Numbers, granule: int) -> Numbers:
    """The sums of neighbouring weights. An unknown weight counts as the mean of the others, unless it stands alone."""
    if granule == 1:
        return values
    unknown = values < 0
    if unknown.any():
        numbers = values[~unknown]
        values = np.where(unknown, int(numbers.sum()) // len(numbers) if len(numbers) else 1, values)
    return np.add.reduceat(values, np.arange(0, len(values), granule))
