"""`write_version`: writes a version of an index, of blocks that are new and blocks that an earlier version has."""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np

from ...core.arrow import arrow_array, arrow_scalar
from ...core.lazy import pa, pc
from ...errors import SourceError, shown_cause, shown_path
from ..file_units import Numbers
from ..filesystem import describe, locate
from ..manifest import TEMPORARY_SUFFIX, Output, join_path, open_output
from .layout import (
    FileBlock,
    Version,
    bounds_fields,
    granule_size,
    rows_of,
    table_schema,
    version_digest,
    version_name,
)
from .reader import Index, versions

_MAGIC_BYTES = 8
"""The bytes of an Arrow file before its first message, the schema."""


class BlockPlace(NamedTuple):
    """The place of a block that was written before.

    Attributes:
        data: the name of its file.
        offset, length: its bytes there.
        digest: of its values.
    """

    data: str
    offset: int
    length: int
    digest: bytes


def write_version(
    version: Version,
    address: str,
    filesystem: object,
    blocks: Iterable[tuple[FileBlock, BlockPlace | None]],
    schemas: Sequence[pa.Schema],
    fields: tuple[str, ...],
) -> Version | None:
    """Write a version of an index. Its text is written last, so that no reader sees a part of it.

    Args:
        version: all of it but what follows from the blocks.
        address: the folder.
        filesystem: that the folder is on.
        blocks: in order; one that was written before has its place, and is not written again.
        schemas: those of the blocks; read after the last block.
        fields: those of the units that states are checked against.

    Returns:
        The version as it was written; None if another writer has written one of that number.

    Raises:
        SourceError: it cannot be written.
    """
    # Two writers may write versions of one number at once, and only one of these gets its text.
    name_end = f"{version.number}-{uuid.uuid4().hex[:8]}.arrow"
    table = _VersionTables(version.root, version.statistics, fields)
    file_name = f"files-{name_end}"

    def output(name: str) -> Any:
        return open_output(join_path(address, name, filesystem), filesystem)

    _make_folder(address, filesystem)
    with ExitStack() as stack:
        writer: _BlockWriter | None = None
        for block, place in blocks:
            if place is None:
                if writer is None:
                    schema = block.schema(version.statistics)
                    writer = stack.enter_context(_BlockWriter(stack.enter_context(output(file_name)), schema))
                place = BlockPlace(file_name, *writer.write(block), block.digest(version.root))
            table.add(block, place)
    names: dict[str, Any] = {}
    tables = table.tables(version, schemas)
    for name, content in tables.items():
        names[name] = f"{name}-{name_end}"
        with output(names[name]) as stream:
            _write_table(stream, content)
    written = table.filled(replace(version, **names))
    if _write_text(written, address, filesystem):
        return written
    for name in [*names.values(), *({file_name} & table.data.keys())]:
        _remove(join_path(address, name, filesystem), filesystem)
    return None


def remove_versions(address: str, filesystem: object, keep: int) -> list[int]:
    """Remove all versions of an index but the last ones, and the files that no other version names.

    Args:
        address: the folder.
        filesystem: that the folder is on.
        keep: the number of versions that are left; at least the newest.

    Returns:
        the numbers of the versions that were removed.

    Raises:
        MissingError: there is no index.
        SourceError: a file cannot be read or removed.
    """
    newest = Index.open(address, filesystem).number
    numbers = [number for number in versions(address, filesystem) if number <= newest]
    old, new = numbers[:-keep], numbers[-keep:]
    # Not those that no version names: another writer may be about to name them.
    named = [_names(address, part, filesystem) for part in (old, new)]
    for name in (*map(version_name, old), *sorted(named[0] - named[1])):
        _remove(join_path(address, name, filesystem), filesystem)
    return old


def _names(address: str, numbers: Iterable[int], filesystem: object) -> frozenset[str]:
    return frozenset().union(*(Index.open(address, filesystem, number).version.names for number in numbers))


def _remove(path: str, filesystem: object) -> None:
    place = locate(path, filesystem)
    try:
        place.filesystem.delete_file(place.path)
    except FileNotFoundError:  # another process has removed it
        return
    except OSError as error:
        raise SourceError(f"{shown_path(path)} cannot be removed: {describe(error)}") from shown_cause(error, path)


class _BlockWriter:
    """Writes blocks into an Arrow file, and knows where each begins."""

    def __init__(self, stream: Output, schema: pa.Schema) -> None:
        self._counted = _Counted(stream)
        self._schema = schema
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(cast("Any", self._counted), schema, options=options)
        # Of its first message, the file has the schema: after eight bytes of magic, four of a mark, four of a length.
        self._at = _MAGIC_BYTES + len(schema.serialize())

    def __enter__(self) -> _BlockWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, block: FileBlock) -> tuple[int, int]:
        """The first byte of the block in the file, and the number of its bytes."""
        self._writer.write_batch(block.batch(self._schema))
        offset, self._at = self._at, self._counted.bytes
        return offset, self._at - offset


class _Counted(io.RawIOBase):
    """Counts the bytes that are written to an output."""

    def __init__(self, stream: Output) -> None:
        self._output = stream
        self.bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._output.write(data)
        self.bytes += len(data)
        return len(data)


@dataclass
class _VersionTables:
    """The table of the blocks of a version, and their sums.

    Args:
        root, statistics: of the version.
        fields: those of the units that states are checked against.
    """

    root: str
    statistics: tuple[str, ...]
    fields: tuple[str, ...]
    data: dict[str, int] = field(default_factory=dict)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    sums: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # file, unit, files, bytes, rows
    prefixes: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    bounds: list[list[Any]] = field(default_factory=list)  # of each block
    weights: list[Numbers] = field(default_factory=list)
    sizes: list[Numbers] = field(default_factory=list)
    folders: dict[tuple[str, int], str] = field(default_factory=dict)  # the first path of each folder and schema
    schema_files: dict[int, str] = field(default_factory=dict)
    files: int = 0
    units: int = 0
    units_digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def add(self, block: FileBlock, place: BlockPlace) -> None:
        """Add a block, which is written already."""
        number = self.data.setdefault(place.data, len(self.data))
        self.places.append((number, place.offset, place.length))
        bytes_of_block = -1 if (block.sizes < 0).any() else int(block.sizes.sum())
        self.sums.append((self.files, self.units, len(block), bytes_of_block, rows_of(block.units)))
        self.prefixes.append(block.prefix)
        self.digests.append(place.digest)
        self.bounds.append(_bounds(block))
        weights = block.weights
        self.weights.append(weights)
        if block.units is not None:
            self.sizes.append(block.sizes)
            numbers = block.units.unit_table(self.fields).numbers
            numbers[:, self.fields.index("file")] += self.files
            self.units_digest.update(numbers.tobytes())
        self._add_folders(block)
        self.files += len(block)
        self.units += len(weights)

    def _add_folders(self, block: FileBlock) -> None:
        names, codes = block.folders()
        schemas = np.zeros(len(block), np.int64) if block.units is None else block.units.schema_numbers
        firsts = np.unique(codes * (int(schemas.max()) + 1) + schemas, return_index=True)[1]
        for first in firsts.tolist():
            schema = int(schemas[first])
            self.folders.setdefault((names[int(codes[first])], schema), block.path(first))
            if block.units is not None:
                self.schema_files.setdefault(schema, block.path(first))

    def tables(self, version: Version, schemas: Sequence[pa.Schema]) -> dict[str, pa.Table]:
        """The tables of the version, by the names of their files."""
        places, sums = np.array(self.places, np.int64).reshape(-1, 3), np.array(self.sums, np.int64).reshape(-1, 5)
        numbers = [*places.T, *sums.T]
        bounds = [arrow_array(column, column[0].type) for column in zip(*self.bounds, strict=True)]
        types = table_schema(bounds_fields(self.statistics, bounds))
        columns: list[Any] = [arrow_array(column).cast(types.field(k).type) for k, column in enumerate(numbers)]
        columns += [
            arrow_array(self.prefixes, pa.large_string()),
            arrow_array(self.digests, pa.binary()).cast(pa.binary(16)),
            *bounds,
        ]
        tables = {"blocks": pa.Table.from_arrays(columns, schema=types)}
        tables["weights"] = _sums(self.weights, granule_size(self.units))
        if self.sizes:
            tables["sizes"] = _sums(self.sizes, granule_size(self.files))
        if schemas:
            paths = [self.schema_files.get(number) for number in range(len(schemas))]  # of one that has vanished, none
            texts = [schema.serialize().to_pybytes() for schema in schemas]
            tables["schemas"] = pa.table(
                {"schema": arrow_array(texts, pa.large_binary()), "path": arrow_array(paths, pa.large_string())}
            )
        if any("=" in folder for folder, _ in self.folders):
            numbers_of = arrow_array([schema for _, schema in self.folders], pa.int32())
            tables["folders"] = pa.table(
                {"path": arrow_array([*self.folders.values()], pa.large_string()), "schema": numbers_of}
            )
        return tables

    def filled(self, version: Version) -> Version:
        """The version with what follows from its blocks."""
        sums = np.array(self.sums, np.int64).reshape(-1, 5)
        of_bytes, of_rows = (None if (column < 0).any() else int(column.sum()) for column in (sums[:, 3], sums[:, 4]))
        return replace(
            version,
            files=self.files,
            units=self.units,
            bytes=of_bytes,
            rows=of_rows,
            granule=granule_size(self.units),
            identity=self.units_digest.hexdigest() if self.sizes else "",
            data=tuple(self.data),
            digest=version_digest(self.digests),
        )


def _bounds(block: FileBlock) -> list[Any]:
    """The bounds of the columns in all files of a block; null if those of one are not known."""
    call: Any = pc
    numbers = [
        arrow_scalar(None, column.type) if column.null_count else (call.max if number % 2 else call.min)(column)
        for number, column in enumerate(block.bounds)
    ]
    return numbers


def _sums(parts: Sequence[Numbers], granule: int) -> pa.Table:
    """The sums of neighbouring weights. An unknown weight counts as the mean of the others, unless it stands alone."""
    values = np.concatenate([np.zeros(0, np.int64), *parts])
    if granule > 1:
        unknown = values < 0
        if unknown.any():
            numbers = values[~unknown]
            values = np.where(unknown, int(numbers.sum()) // len(numbers) if len(numbers) else 1, values)
        values = np.add.reduceat(values, np.arange(0, len(values), granule))
    return pa.table({"weight": arrow_array(values)})


def _write_table(stream: Output, table: pa.Table) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(cast("Any", stream), table.schema, options=options) as writer:
        writer.write_table(table)


def _make_folder(address: str, filesystem: object) -> None:
    place = locate(address, filesystem)
    try:
        place.filesystem.create_dir(place.path)
    except OSError as error:
        raise SourceError(f"{shown_path(address)} cannot be written to: {describe(error)}") from shown_cause(
            error, address
        )


def _write_text(version: Version, address: str, filesystem: object) -> bool:
    """Write the text of a version, unless there is one of its number.

    A local folder decides between two writers at once. Object stores have no such operation here: the last one wins,
    and the digest tells a reader of the other version.
    """
    path = join_path(address, version_name(version.number), filesystem)
    place = locate(path, filesystem)
    content = version.text().encode()
    try:
        if place.filesystem.type_name == "local":
            return _link(place.path, content)
        if place.filesystem.get_file_info([place.path])[0].type.name != "NotFound":
            return False
    except OSError as error:
        raise SourceError(f"{shown_path(path)} cannot be written: {describe(error)}") from shown_cause(error, path)
    with open_output(path, filesystem) as stream:
        stream.write(content)
    return True


def _link(path: str, content: bytes) -> bool:
    """Write a local file, complete from the beginning, unless there is one of its name."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return True
