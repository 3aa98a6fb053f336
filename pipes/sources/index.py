"""Indexes that are a manifest: opened, made, and grown by a version."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from ..core.arrow import arrow_array, arrow_scalar, numpy_array
from ..core.lazy import pa, pc
from ..errors import ArgumentError, SourceError, shown_path
from ..files.arrow import ArrowIpc
from ..files.footers import CountedFormat
from ..files.parquet import Parquet
from ..storage.file import File
from ..storage.file_units import FileContents, FileUnits, Numbers
from ..storage.index import BLOCK_FILES, FILES, SUFFIX, FileBlock, Index, Version, versions, write_version
from ..storage.listing import Listing, Selection
from ..storage.tasks import in_threads

Footers = Literal["infer", True, False]
ReadFooters: TypeAlias = "Callable[[FooterReader, Iterator[pa.Table]], Iterator[FileContents]]"
"""Reads the footers of the files of tables, in order."""
call: Any = pc
MAX_ATTEMPTS = 8
"""The most times that another writer may write a version of the same number first."""


def is_index(path: str) -> bool:
    """Whether a path is that of an index, by its name."""
    return path.rstrip("/").endswith(SUFFIX)


def open_index(selection: Selection) -> Index:
    """The version of an index that `list_files` was given as its manifest; makes the index if there is none."""
    address = cast("str", selection.manifest)
    if selection.version is None and not versions(address, selection.filesystem):
        return make_version(selection, "infer")
    opened = Index.open(address, selection.filesystem, selection.version)
    _check_selection(opened, selection)
    return opened


def make_version(selection: Selection, footers: Footers, read: ReadFooters | None = None) -> Index:
    """The first version of an index, or the next one; the last one if nothing has changed. `read` reads footers."""
    address = cast("str", selection.manifest)
    for _ in range(MAX_ATTEMPTS):
        before = Index.open(address, selection.filesystem) if versions(address, selection.filesystem) else None
        if before is not None:
            _check_selection(before, selection)
        listing = selection.absolute_listing(address)
        work = _Work(listing, selection.filesystem, _form(listing, footers), before)
        if before is not None and work.is_as(before):
            return before
        number = 1 if before is None else before.number + 1
        call, selected = selection.call(), selection.digest()
        version = Version(number, call, selected, work.kind, work.digest, listing.root)
        blocks = work.blocks(read or FooterReader.contents)
        written = write_version(version, address, selection.filesystem, blocks, work.schemas, work.fields)
        if written is not None:
            return Index(address, number, written.digest, selection.filesystem)
    raise SourceError(f"{shown_path(address)} cannot be written: other writers were faster, {MAX_ATTEMPTS} times")


def _check_selection(opened: Index, selection: Selection) -> None:
    if opened.version.selected != selection.digest():
        raise ArgumentError(
            f"{shown_path(opened.address)} was made by `{opened.version.call}`, and this is `{selection.call()}`, "
            "perhaps from another folder; give another index, or make one with `fp.index`"
        )


_KINDS: dict[str, Callable[[], CountedFormat]] = {r"\.parquet": Parquet, r"\.(arrow|feather)": ArrowIpc}
"""The formats of files with footers, by the ends of their names."""


def _form(listing: Listing, footers: Footers) -> CountedFormat | None:
    """The format that reads the footers of some files; None if they are listed only."""
    for ending, form in _KINDS.items() if footers else ():
        # An option after the name of a URL is no part of the name.
        if call.all(call.match_substring_regex(listing.paths, ending + r"(\?[^/]*)?$")).as_py():
            return form()
    if footers is True:
        raise ArgumentError(
            "`footers=True` needs files that all end with .parquet or all with .arrow, and one of the files "
            f"is {shown_path(listing.path(0))}; give a `pattern`, or an index for each kind"
        )
    return None


@dataclass(frozen=True)
class FooterReader:
    """Reads the footers of files."""

    form: CountedFormat
    filesystem: object

    def contents(self, files: Iterator[pa.Table] | Iterator[pa.RecordBatch]) -> Iterator[FileContents]:
        """What the footers say, read in threads."""
        return iter(in_threads(self.form.footer, (self._file(**row) for table in files for row in table.to_pylist())))

    def _file(self, path: str, size: int, changed: int) -> File:
        return File(path, filesystem=self.filesystem, listed=size if size >= 0 else None, changed=changed)


class _Work:
    """The blocks of a version of an index.

    Attributes:
        kind: of the units.
        fields: of the units, those that states are checked against.
        schemas: of the blocks that were made.
        digest: of the listing, in the order of the blocks.
    """

    def __init__(self, listing: Listing, filesystem: object, form: CountedFormat | None, before: Index | None) -> None:
        self._listing = listing
        self._reader: FooterReader | None = None
        self.kind = FILES
        self.fields: tuple[str, ...] = ()
        self.schemas: list[pa.Schema] = []
        self._numbers: dict[bytes, int] = {}  # of the schemas
        self.digest = listing.digest
        if form is not None:
            self.kind = form.units
            self.fields = tuple(name for name in form.fields if name != "footer_bytes")
            self._reader = FooterReader(form, filesystem)
        self._order, self._kept = np.arange(len(listing)), np.zeros(len(listing), np.bool_)
        self._before = None
        is_unique = call.count_distinct(listing.paths).as_py() == len(listing)
        if before is not None and before.kind == self.kind and is_unique:
            self._before = before
            self._grow(before)

    def _grow(self, before: Index) -> None:
        """Order the files as in the version before, new ones after them; find those that are as they were."""
        listing, blocks = self._listing, [*before.blocks()]
        old = pa.concat_arrays([pa.nulls(0, pa.string()), *(block.paths for block in blocks)]).cast(pa.large_string())
        sizes, changed = (
            np.concatenate([np.zeros(0, np.int64), *part])
            for part in zip(*((b.sizes, b.changed) for b in blocks), strict=True)
        )
        places = numpy_array(call.index_in(old, value_set=listing.paths).fill_null(arrow_scalar(-1, pa.int32())))
        there = places >= 0
        own_sizes, own_changed = numpy_array(listing.sizes)[places], numpy_array(listing.changed)[places]
        others = (own_changed != changed) & (own_changed != 0) & (changed != 0)
        self._same = there & (own_sizes == sizes) & ~others  # of the files of the version before
        new = np.setdiff1d(np.arange(len(listing)), places[there])
        self._order = np.concatenate([places[there], new])
        self._kept = np.concatenate([self._same[there], np.zeros(len(new), np.bool_)])
        for schema in before.schemas:
            self._number(schema)
        if (self._order != np.arange(len(self._order))).any():  # else the order is that of a listing
            both = f"{before.version.listing} {listing.digest}".encode()
            self.digest = hashlib.blake2b(both, digest_size=16).hexdigest()

    def is_as(self, before: Index) -> bool:
        """Whether nothing has changed since the version before."""
        return self._before is not None and len(self._kept) == before.files and bool(self._kept.all())

    def blocks(self, read_footers: ReadFooters) -> Iterator[FileBlock]:
        """All blocks."""
        kept, order = self._kept_contents(), self._order
        tables = map(self._table, _parts(order))
        again = map(self._table, _parts(order[~self._kept]))
        read = iter(()) if self._reader is None else read_footers(self._reader, again)
        first = 0
        for table in tables:
            paths, sizes, changed = (cast("Any", column).combine_chunks() for column in table.columns)
            paths, numbers = paths.cast(pa.string()), (numpy_array(sizes), numpy_array(changed))
            if self._reader is None:
                yield FileBlock.of(paths, *numbers)
            else:
                flags = self._kept[first : first + len(table)].tolist()
                contents = [next(kept) if flag else next(read) for flag in flags]
                yield FileBlock.of(paths, *numbers, self._numbered(FileUnits.of(contents)))
            first += len(table)

    def _kept_contents(self) -> Iterator[FileContents]:
        """What the footers say of the files that are as they were."""
        first = 0
        for block in self._before.blocks() if self._before is not None and self._reader is not None else ():
            for place in np.flatnonzero(self._same[first : first + len(block)]).tolist():
                yield block.contents(place)
            first += len(block)

    def _table(self, files: Numbers) -> pa.Table:
        listing = self._listing
        columns = {"path": listing.paths, "size": listing.sizes, "changed": listing.changed}
        places = arrow_array(files)
        return pa.table({name: cast("Any", column).take(places) for name, column in columns.items()})

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


def _parts(files: Numbers) -> Iterator[Numbers]:
    return (files[start : start + BLOCK_FILES] for start in range(0, len(files), BLOCK_FILES))
