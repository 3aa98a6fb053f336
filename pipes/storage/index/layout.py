"""The files of an index: their columns, their digests, and the text of a version.

An index is a folder whose name ends with `.index`. Nothing in it is changed after it was written. But for the texts of
versions, its files are Arrow IPC files, compressed by zstd, which any Arrow tool opens.

    v<N>.json             the text of version N
    files-<N>-*.arrow     the blocks of files that version N added: a record batch each
    blocks-<N>-*.arrow    a row for each block of version N, in order: where it is, and its sums
    weights-<N>-*.arrow   the sums of the rows of neighbouring units, or of the bytes of neighbouring files
    sizes-<N>-*.arrow     the latter, if `weights` has rows
    schemas-<N>-*.arrow   the schemas of the files, each with the path of the first file that has it
    folders-<N>-*.arrow   the first file of each folder and schema, if the name of a folder gives a column
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ...core.arrow import arrow_array, arrow_scalar, numpy_array
from ...core.lazy import pa, pc
from ...errors import DataError, shown_path
from ..file_units import UNKNOWN, FileContents, FileUnits, Numbers

SUFFIX = ".index"
FORMAT = "feedpipe index"
FORMAT_VERSION = 1
BLOCK_FILES = 4096
"""The files of a block. Some 110 kB, which one request fetches."""
MAX_EXACT_UNITS = 2**20
"""Up to so many units, their order and division are those of the units; above, of granules."""
FILES = "files"
"""The `kind` of an index whose units are files as a whole."""


Content: TypeAlias = bytes
"""What a file holds; `bytes` is a number here."""


def granule_size(units: int) -> int:
    """The number of neighbouring units that are dealt together: about 2**20 granules in all, from 16 units each."""
    return 1 if units <= MAX_EXACT_UNITS else max(16, 1 << ((units - 1) // MAX_EXACT_UNITS).bit_length())


@dataclass(frozen=True)
class Version:
    """The text of a version.

    Attributes:
        number, parent: of this version, and of the one that it was made from.
        made_by, call: the function that made it, and the call.
        selected: the digest of the arguments.
        root: the folder that all files are in.
        files, units, rows, bytes: of all files; None if a number is not known.
        kind: of the units: "files", "row_groups", "record_batches" or "stripes".
        statistics: the columns whose bounds are kept.
        granule: the units of a sum in `weights`.
        listing: the digest of the listing.
        identity: the digest of all units; empty if these are files as a whole.
        data: the files with blocks.
        blocks, weights, sizes, schemas, folders: the names of the other files; empty if there is none.
        digest: of all values of all blocks.
    """

    number: int
    parent: int | None
    made_by: str
    call: str
    selected: str
    root: str
    files: int
    units: int
    rows: int | None
    bytes: int | None
    kind: str
    statistics: tuple[str, ...]
    granule: int
    listing: str
    identity: str
    data: tuple[str, ...]
    blocks: str
    weights: str
    sizes: str
    schemas: str
    folders: str
    digest: str

    @property
    def names(self) -> frozenset[str]:
        """The names of its files, without its text."""
        tables = (self.blocks, self.weights, self.sizes, self.schemas, self.folders)
        return frozenset(filter(None, (*self.data, *tables)))

    @staticmethod
    def begun(
        number: int, call: str, selected: str, root: str, kind: str, listing: str, statistics: tuple[str, ...] = ()
    ) -> Version:
        """A version without what follows from its blocks."""
        values: dict[str, Any] = {"number": number, "parent": number - 1 or None, "made_by": "index", "call": call}
        values |= {"selected": selected, "root": root, "kind": kind, "listing": listing, "data": ()}
        values["statistics"] = statistics
        values |= {"files": 0, "units": 0, "rows": None, "bytes": None, "granule": 1}
        values |= dict.fromkeys(("identity", "blocks", "weights", "sizes", "schemas", "folders", "digest"), "")
        return Version(**values)

    def text(self) -> str:
        """The version as JSON."""
        return json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **asdict(self)}, indent=1) + "\n"

    @staticmethod
    def of(text: Content, path: str) -> Version:
        """The version with this text.

        Raises:
            DataError: it is no version of an index, one of a newer format, or damaged.
        """
        try:
            values: Any = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise DataError(
                f"{shown_path(path)} is no version of an index: it must be JSON whose `format` is {FORMAT!r}"
            )
        if (version := values.pop("version", None)) != FORMAT_VERSION:
            raise DataError(
                f"{shown_path(path)} is of version {version!r} of the format; this feedpipe reads version "
                f"{FORMAT_VERSION}"
            )
        kinds = {"int": int, "int | None": (int, type(None)), "str": str, "tuple[str, ...]": list}
        types = {field.name: kinds[cast("str", field.type)] for field in fields(Version)}
        wrong = [name for name, kind in types.items() if not isinstance(values.get(name), kind)]  # type: ignore[arg-type]
        if wrong or values.keys() - types.keys():
            raise DataError(f"{shown_path(path)} is damaged: it has no right `{[*wrong, 'format'][0]}`")
        values |= {name: tuple(map(str, values[name])) for name in ("data", "statistics")}
        return Version(**values)


def version_name(number: int) -> str:
    """The name of the text of a version."""
    return f"v{number}.json"


def version_number(name: str) -> int | None:
    """The number of the version whose text has this name; None for other files."""
    digits = name.removeprefix("v").removesuffix(".json")
    is_version = name == f"v{digits}.json" and digits.isdecimal() and digits == str(int(digits))
    return int(digits) if is_version else None


class Folders(NamedTuple):
    """The folders of files: the beginnings of their paths, each once, and the number of that of each file."""

    names: Sequence[str]
    numbers: Numbers


@dataclass(frozen=True, eq=False)
class FileBlock:
    """Some neighbouring files of an index.

    Attributes:
        prefix: the beginning that all paths have in common.
        names: the rest of each path.
        sizes: the bytes of each file; -1 if the storage does not say.
        changed: when each was changed, in milliseconds since 1970; 0 if the storage does not say.
        units: what their footers say; None if units are files as a whole. Its schemas are those of the whole index.
        bounds: the least and the greatest values of each of the columns of `statistics` in each file, as Arrow arrays;
            null if not known.
    """

    prefix: str
    names: pa.StringArray
    sizes: Numbers
    changed: Numbers
    units: FileUnits | None = None
    bounds: Sequence[Any] = ()

    @staticmethod
    def of_paths(
        paths: Any, sizes: Numbers, changed: Numbers, units: FileUnits | None = None, bounds: Sequence[Any] = ()
    ) -> FileBlock:
        """The block of files with these paths, an Arrow array of text."""
        call: Any = pc
        prefix = common_prefix(paths)
        names = call.utf8_slice_codeunits(paths, len(prefix)).cast(pa.string())
        return FileBlock(prefix, names, sizes, changed, units, bounds)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def weights(self) -> Numbers:
        """The weight of each unit: its rows, or the bytes of a file."""
        return self.sizes if self.units is None else self.units.rows[self.units.rows != 0]

    def paths(self) -> pa.LargeStringArray:
        """The paths of all files."""
        call: Any = pc
        text = pa.large_string()
        prefix, nothing = (arrow_scalar(part, text) for part in (self.prefix, ""))
        joined = call.binary_join_element_wise(prefix, self.names.cast(text), nothing)
        return cast("pa.LargeStringArray", joined)

    def folders(self) -> Folders:
        """The folders of the files."""
        call: Any = pc
        folders = call.replace_substring_regex(self.names, "[^/]*$", "").dictionary_encode()
        names = [self.prefix + name for name in folders.dictionary.to_pylist()]
        return Folders(names, numpy_array(folders.indices).astype(np.int64))

    def path(self, place: int) -> str:
        """The path of a file."""
        return f"{self.prefix}{self.names[place]}"

    def paths_at(self, places: list[int]) -> list[str]:
        """The paths of some files."""
        names = self.names.take(arrow_array(np.array(places, np.int64)))
        return [self.prefix + name for name in cast("list[str]", names.to_pylist())]

    def contents(self, place: int) -> FileContents:
        """What the footer of a file says."""
        assert self.units is not None, "only files with footers have contents"
        return self.units.contents(place)._replace(bounds=[column[place] for column in self.bounds])

    def schema(self, statistics: Sequence[str]) -> pa.Schema:
        """The columns of its record batch."""
        return block_schema(bounds_fields(statistics, self.bounds), has_units=self.units is not None)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The block as a record batch."""
        columns: list[Any] = [self.names, arrow_array(self.sizes), arrow_array(self.changed)]
        if (units := self.units) is not None:
            offsets = arrow_array(np.append(0, np.cumsum(units.counts)), pa.int64())
            columns += [
                arrow_array(units.seals),
                arrow_array(units.schema_numbers.astype(np.int32)),
                arrow_array(units.footer_bytes.astype(np.int32)),
                pa.LargeListArray.from_arrays(offsets, arrow_array(units.rows)),
                pa.LargeListArray.from_arrays(offsets, arrow_array(units.compressed.astype(np.int8))),
            ]
        return pa.RecordBatch.from_arrays([*columns, *self.bounds], schema=schema)

    @staticmethod
    def of(batch: pa.RecordBatch, prefix: str, schemas: Sequence[pa.Schema]) -> FileBlock:
        """The block of a record batch."""
        names, sizes, changed, *rest = cast("list[Any]", batch.columns)
        units, bounds = None, list[Any]()
        if rest:
            seals, schema, footers, rows, compressed, *bounds = rest
            flat = (schema, seals, footers, rows.value_lengths(), rows.flatten(), compressed.flatten())
            units = FileUnits(schemas, *(np.asarray(numpy_array(column), np.int64) for column in flat))
        return FileBlock(prefix, names, numpy_array(sizes), numpy_array(changed), units, bounds)

    def digest(self, root: str) -> bytes:
        """A digest of all values but the times; a copy below another root has the same.

        It is over the number of files, the prefix below the root after its length, the offsets and bytes of the names
        after it, then over each column, each number as a signed integer of 64 bits; then over each column of bounds,
        as JSON, in which a number is a text as Arrow prints it.
        """
        digest = hashlib.blake2b(digest_size=16)
        prefix = self.prefix.removeprefix(root).encode()
        digest.update(len(self).to_bytes(8, "little") + len(prefix).to_bytes(8, "little") + prefix)
        offsets = np.frombuffer(cast("Any", self.names.buffers()[1]), np.int32)
        offsets = offsets[self.names.offset : self.names.offset + len(self) + 1]
        digest.update((offsets - offsets[0]).astype("<i8").tobytes())
        digest.update(memoryview(cast("Any", self.names.buffers()[2]))[offsets[0] : offsets[-1]])
        columns = [self.sizes]
        if (units := self.units) is not None:
            columns += [
                units.seals,
                units.schema_numbers,
                units.footer_bytes,
                units.counts,
                units.rows,
                units.compressed,
            ]
        for column in columns:
            digest.update(column.astype("<i8").tobytes())
        for bound in self.bounds:
            digest.update(json.dumps(bound.cast("large_string").to_pylist()).encode())
        return digest.digest()


def bounds_fields(statistics: Sequence[str], columns: Sequence[Any]) -> list[pa.Field[Any]]:
    """The fields of the bounds of some columns, given the arrays or fields of these bounds."""
    names = [f"{bound}_{name}" for name in statistics for bound in ("min", "max")]
    return [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]


def block_schema(bounds: Iterable[pa.Field[Any]] = (), *, has_units: bool) -> pa.Schema:
    """The columns of a block: of a file, its name after the block's prefix, and the attributes of `FileBlock`."""
    number = pa.int64()
    types: dict[str, pa.DataType] = {"name": pa.string(), "bytes": number, "changed": number}
    if has_units:
        types |= {"seal": number, "schema": pa.int32(), "footer": pa.int32()}
        types |= {"unit_rows": pa.large_list(number), "unit_compressed": pa.large_list(pa.int8())}
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in types.items()), *bounds])


def table_schema(bounds: Iterable[pa.Field[Any]] = ()) -> pa.Schema:
    """The columns of the table of blocks: where each is, its first file and unit, its sums, prefix, digest, bounds."""
    number = pa.int64()
    types: dict[str, pa.DataType] = {"data": pa.int32(), "offset": number, "length": number, "first": number}
    types |= {"first_unit": number, "files": pa.int32(), "bytes": number, "rows": number}
    types |= {"prefix": pa.large_string(), "digest": pa.binary(16)}
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in types.items()), *bounds])


def version_digest(digests: Iterable[bytes]) -> str:
    """The digest of a version: over those of its blocks, in order."""
    return hashlib.blake2b(b"".join(digests), digest_size=16).hexdigest()


def common_prefix(paths: Any) -> str:
    """The beginning that all of some paths have in common; they are an Arrow array."""
    ends = cast("Any", pc).min_max(paths).as_py()
    first, last = str(ends["min"]), str(ends["max"])
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


def rows_of(units: FileUnits | None) -> int:
    """The number of rows of some files; UNKNOWN if a unit does not know it."""
    if units is None or (units.rows == UNKNOWN).any():
        return UNKNOWN
    return int(units.rows.sum())
