"""Indexes that are a manifest: opened, made, and grown by a version."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from ..core.arrow import arrow_array, arrow_scalar, numpy_array
from ..core.lazy import pa, pc
from ..errors import ArgumentError, SourceError, shown_path
from ..files.arrow import ArrowIpc
from ..files.footers import CountedFormat
from ..files.orc import Orc
from ..files.parquet import Parquet
from ..files.parquet_footer import has_bounds
from ..formats.columns import format_names
from ..storage.file import File
from ..storage.file_units import FileContents, FileUnits, Numbers
from ..storage.index.layout import BLOCK_FILES, FILES, SUFFIX, FileBlock, Version, common_prefix
from ..storage.index.reader import Index, versions
from ..storage.index.writer import BlockPlace, write_version
from ..storage.listing import Listing, Selection
from ..storage.tasks import in_threads

Footers = Literal["infer", True, False]
ReadFooters: TypeAlias = "Callable[[FooterReader, Iterator[pa.Table]], Iterator[FileContents]]"
"""Reads the footers of the files of tables, in order."""
MAX_ATTEMPTS = 8
"""The most times that another writer may write a version of the same number first."""


def is_index(path: str) -> bool:
    """Whether a path is that of an index, by its name."""
    return path.rstrip("/").endswith(SUFFIX)


def open_index(selection: Selection) -> Index:
    """The version of an index that `list_files` was given as its manifest; makes the index if there is none.

    Raises:
        MissingError: there is no such version.
        ArgumentError: the index belongs to another selection.
        SourceError, DataError: it cannot be read or made.
    """
    address = cast("str", selection.manifest)
    if selection.version is None and not versions(address, selection.filesystem):
        return make_version(selection, "infer")
    opened = Index.open(address, selection.filesystem, selection.version)
    _check_selection(opened, selection)
    return opened


def make_version(
    selection: Selection, footers: Footers, statistics: tuple[str, ...] = (), read: ReadFooters | None = None
) -> Index:
    """The first version of an index, or the next one; the last one if nothing has changed.

    Args:
        selection: the files, and the index as their manifest.
        footers, statistics: as for `index`.
        read: reads footers; by default in threads.
    """
    address = cast("str", selection.manifest)
    for _ in range(MAX_ATTEMPTS):
        before = Index.open(address, selection.filesystem) if versions(address, selection.filesystem) else None
        if before is not None:
            _check_selection(before, selection)
            if statistics and statistics != before.version.statistics:
                raise ArgumentError(
                    f"{shown_path(address)} keeps the statistics of {[*before.version.statistics]}, and this call asks "
                    f"for those of {[*statistics]}; leave out `statistics`, or give another index"
                )
            statistics = before.version.statistics
        listing = selection.absolute_listing(address, times=True)
        work = _Work(listing, selection.filesystem, _kind(listing, footers), statistics, before)
        work.read = read or FooterReader.contents
        entries = work.all_new() if before is None else work.grown(before)
        if entries is None and before is not None:
            return before
        number = 1 if before is None else before.number + 1
        call, selected = selection.call(), selection.digest()
        version = Version.begun(number, call, selected, work.root, work.kind, work.digest, statistics)
        written = write_version(version, address, selection.filesystem, entries or (), work.schemas, work.fields)
        if written is not None:
            return Index(address, number, written.digest, selection.filesystem)
    raise SourceError(f"{shown_path(address)} cannot be written: other writers were faster, {MAX_ATTEMPTS} times")


def _check_selection(opened: Index, selection: Selection) -> None:
    if opened.version.selected != selection.digest():
        raise ArgumentError(
            f"{shown_path(opened.address)} was made by `{opened.version.call}`, and this is `{selection.call()}`, "
            "perhaps from another folder; give another index, or make one with `fp.index`"
        )


class _Kind(NamedTuple):
    """Files with footers.

    Attributes:
        endings: a regular expression for the ends of their names.
        form: makes the format that reads the footers.
    """

    endings: str
    form: Callable[[], CountedFormat]


_KINDS = (
    _Kind(r"\.parquet", Parquet),
    _Kind(r"\.(arrow|feather)", ArrowIpc),
    _Kind(r"\.orc", Orc),
)


def _kind(listing: Listing, footers: Footers) -> _Kind | None:
    """What to read of the footers of some files; None if they are listed only."""
    call: Any = pc
    for kind in _KINDS if footers else ():
        # An option after the name of a URL is no part of the name.
        if call.all(call.match_substring_regex(listing.paths, kind.endings + r"(\?[^/]*)?$")).as_py():
            return kind
    if footers is True:
        raise ArgumentError(
            "`footers=True` needs files that all end with .parquet, with .arrow or with .orc, and one of the files "
            f"is {shown_path(listing.path(0))}; give a `pattern`, or an index for each kind"
        )
    return None


@dataclass(frozen=True)
class FooterReader:
    """Reads the footers of files.

    Attributes:
        form: the format.
        filesystem: that the paths are on.
        statistics: the columns whose bounds are kept, with their types.
    """

    form: CountedFormat
    filesystem: object
    statistics: Mapping[str, pa.DataType]

    def contents(self, files: Iterator[pa.Table] | Iterator[pa.RecordBatch]) -> Iterator[FileContents]:
        """What the footers say, read in threads.

        Args:
            files: tables of the `path` of each file, its `size`, and the time when it was `changed`.
        """
        read: Callable[[File], FileContents] = self.form.footer
        if self.statistics:
            read = partial(cast("Parquet", self.form).footer, statistics=self.statistics)
        return iter(in_threads(read, (self._file(**row) for table in files for row in table.to_pylist())))

    def bounds(self, contents: Sequence[FileContents]) -> list[Any]:
        """The bounds of the columns of some files, as `FileBlock` has them."""
        types = (kind for kind in self.statistics.values() for _ in range(2))
        return [arrow_array([file.bounds[k] for file in contents], kind) for k, kind in enumerate(types)]

    def _file(self, path: str, size: int, changed: int) -> File:
        return File(path, filesystem=self.filesystem, listed=size if size >= 0 else None, changed=changed)


class _Work:
    """The blocks of a version of an index.

    Attributes:
        root: the folder that all files are in.
        kind: of the units.
        fields: of the units, those that states are checked against.
        schemas: of the blocks that were made.
        digest: of the listing, in the order of the blocks that were made.
        read: reads footers.
    """

    read: ReadFooters

    def __init__(
        self,
        listing: Listing,
        filesystem: object,
        kind: _Kind | None,
        statistics: tuple[str, ...],
        before: Index | None,
    ) -> None:
        self._listing = listing
        self._reader: FooterReader | None = None
        self.root = common_prefix(listing.paths).rpartition("/")[0] + "/"
        self.kind = FILES
        self.fields: tuple[str, ...] = ()
        self.schemas: list[pa.Schema] = []
        self._numbers: dict[bytes, int] = {}  # of the schemas
        self.digest = listing.digest
        form = None if kind is None else kind.form()
        types = self._types(form, statistics, before, filesystem) if statistics else {}
        if form is not None:
            self.kind = form.units
            self.fields = tuple(name for name in form.fields if name != "footer_bytes")
            self._reader = FooterReader(form, filesystem, types)

    def _types(
        self, form: CountedFormat | None, statistics: tuple[str, ...], before: Index | None, filesystem: object
    ) -> dict[str, pa.DataType]:
        """The types of the columns whose bounds are kept."""
        if not isinstance(form, Parquet):
            raise ArgumentError(
                "`statistics` are kept of Parquet files, and not all files are such, or `footers` is False; leave "
                "it out, or give a `pattern`"
            )
        if before is not None and before.schemas:
            schema = before.schemas[0]
        else:
            schema = form.head_of(File(self._listing.path(0), filesystem=filesystem)).schema
        types: dict[str, pa.DataType] = {}
        for name in statistics:
            if name not in schema.names:
                raise ArgumentError(
                    f"`statistics` names {name!r}, and the files have no such column; there are "
                    f"{format_names(schema.names)}"
                )
            kind = schema.field(name).type
            if not has_bounds(kind):
                raise ArgumentError(
                    f"`statistics` takes columns of numbers, text, dates and times, and {name!r} has the type {kind}"
                )
            types[name] = kind
        return types

    def all_new(self) -> Iterator[tuple[FileBlock, BlockPlace | None]]:
        """The blocks of the first version."""
        return ((block, None) for block in self._new_blocks(np.arange(len(self._listing))))

    def grown(
        self, before: Index
    ) -> list[tuple[FileBlock, BlockPlace | None]] | Iterator[tuple[FileBlock, BlockPlace | None]] | None:
        """The blocks of the version after `before`; None if nothing has changed."""
        call: Any = pc
        listing = self._listing
        if before.kind != self.kind or call.count_distinct(listing.paths).as_py() < len(listing):
            return self.all_new()
        old = pa.concat_arrays([pa.nulls(0, pa.large_string()), *(block.paths() for block in before.blocks())])
        places = numpy_array(call.index_in(old, value_set=listing.paths).fill_null(arrow_scalar(-1, pa.int32())))
        is_there = places >= 0
        is_new = np.ones(len(listing), np.bool_)
        is_new[places[is_there]] = False
        new = np.flatnonzero(is_new)
        changes = [self._changed(block, own) for block, own in self._by_block(before, places)]
        if not len(new) and not any(change.any() for change in changes):
            return None
        order = np.concatenate([places[is_there], new])
        if (order != np.arange(len(order))).any():  # else the order is that of a listing
            self.digest = hashlib.blake2b(
                f"{before.version.listing} {listing.digest}".encode(), digest_size=16
            ).hexdigest()
        if self.root.startswith(before.version.root):
            self.root = before.version.root
        return self._regrown(before, places, changes, new)

    def _regrown(
        self, before: Index, places: Numbers, changes: Sequence[Any], new: Numbers
    ) -> Iterator[tuple[FileBlock, BlockPlace | None]]:
        for schema in before.schemas:
            self._number(schema)
        table = before.entries
        last = len(table.first) - 1
        for number, (block, own) in enumerate(self._by_block(before, places)):
            room = BLOCK_FILES - len(block) if number == last else 0
            if not changes[number].any() and not min(room, len(new)) and self.root == before.version.root:
                data = before.version.data[table.data[number]]
                place = BlockPlace(data, int(table.offset[number]), int(table.length[number]), table.digest(number))
                yield block, place
                continue
            kept = np.flatnonzero(own >= 0)
            added, new = new[:room], new[room:]
            files = np.concatenate([own[kept], added])
            if len(files):
                contents = None if block.units is None else self._contents(block, kept, changes[number], own, added)
                yield self._block(files, contents), None
        yield from ((block, None) for block in self._new_blocks(new))

    def _contents(
        self, block: FileBlock, kept: Numbers, changed: Any, own: Numbers, added: Numbers
    ) -> Iterator[FileContents]:
        """What the footers of a block say: those of files that have not changed as they were kept."""
        assert block.units is not None, "only files with footers have contents"
        again = self._footers(np.concatenate([own[kept[changed[kept]]], added]))
        for place in kept.tolist():
            yield next(again) if changed[place] else block.contents(place)
        yield from again

    def _by_block(self, before: Index, places: Numbers) -> Iterator[tuple[FileBlock, Numbers]]:
        """The blocks of a version, with the place in the listing of each of their files."""
        first = 0
        for block in before.blocks():
            yield block, places[first : first + len(block)]
            first += len(block)

    def _changed(self, block: FileBlock, own: Numbers) -> Any:
        """Which files of a block have vanished, or have another size or time of change now."""
        listing = self._listing
        sizes, changed = numpy_array(listing.sizes)[own], numpy_array(listing.changed)[own]
        times = (changed != block.changed) & (changed != 0) & (block.changed != 0)
        return (own < 0) | (sizes != block.sizes) | times

    def _new_blocks(self, files: Numbers) -> Iterator[FileBlock]:
        """Blocks of files at these places of the listing."""
        footers = self._footers(files)
        for start in range(0, len(files), BLOCK_FILES):
            part = files[start : start + BLOCK_FILES]
            yield self._block(part, footers if self._reader is not None else None)

    def _footers(self, files: Numbers) -> Iterator[FileContents]:
        """What the footers of some files say."""
        if self._reader is None:
            return iter(())
        parts = (files[start : start + BLOCK_FILES] for start in range(0, len(files), BLOCK_FILES))
        return self.read(self._reader, map(self._table, parts))

    def _table(self, files: Numbers) -> pa.Table:
        listing = self._listing
        columns = {"path": listing.paths, "size": listing.sizes, "changed": listing.changed}
        places = arrow_array(files)
        return pa.table({name: cast("Any", column).take(places) for name, column in columns.items()})

    def _block(self, files: Numbers, footers: Iterator[FileContents] | None) -> FileBlock:
        paths, sizes, changed = (cast("Any", column).combine_chunks() for column in self._table(files).columns)
        if footers is None or self._reader is None:
            return FileBlock.of_paths(paths, numpy_array(sizes), numpy_array(changed))
        contents = [*islice(footers, len(files))]
        units, bounds = self._numbered(FileUnits.of(contents)), self._reader.bounds(contents)
        return FileBlock.of_paths(paths, numpy_array(sizes), numpy_array(changed), units, bounds)

    def _numbered(self, units: FileUnits) -> FileUnits:
        """The units with the schemas of the whole index."""
        numbers = np.array([self._number(schema) for schema in units.schemas], np.int64)
        return replace(units, schemas=self.schemas, schema_numbers=numbers[units.schema_numbers])

    def _number(self, schema: pa.Schema) -> int:
        text = schema.serialize().to_pybytes()
        if text not in self._numbers:
            self._numbers[text] = len(self.schemas)
            self.schemas.append(schema)
        return self._numbers[text]
