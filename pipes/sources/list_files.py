"""`list_files`: the paths of files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

from ..core.checks import check_int
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Operator, StageView, UnitSource, Weights
from ..core.rows import BlockRows, Indices
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, StateError
from ..files.open_files import at_call_site
from ..pipe import Pipe
from ..storage.index import SUFFIX, Index
from ..storage.listing import Listing, Selection
from .from_sequence import pack_list
from .index import is_index, open_index


def list_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
    version: int | None = None,
) -> Pipe[str]:
    """Begin a pipe with the paths of files.

    Element: a path that begins as in `paths`: a relative path stays relative, a URL stays a URL. Order: that of
    `paths`; the files of one folder or glob are sorted by name, so the order is the same on every machine. Length: the
    number of files; indexed. The files are listed once, at the first use of the pipe; its loaders and the pipes chained
    to it see the same files, and only a new pipe sees new ones. A million paths take about 50 MB. State: a position,
    with a digest of the sizes and of the names below each root; it is refused if they have changed.

    Folders and wild cards leave out names that begin with `.` or `_`, unless a pattern begins with that character. If
    several of `paths` stand for the same file, it comes several times.

    Args:
        paths: a file, a folder, a glob (`*`, `?`, `[...]`, and `**` for folders of any depth), or a list of those.
            Braces stand for several: `shard-{000..127}.tar`, `{train,val}/*.csv`; but if a file has that very name, for
            itself.
        pattern: in folders and globs, takes only files whose name matches this glob, such as `*.csv`.
        recursive: in folders, takes the files in their subfolders as well; otherwise the log says if there are any.
        filesystem: a pyarrow or fsspec file system for `paths` and `manifest`; without it, they are local paths or
            URLs.
        manifest: the path of an index, which ends with `.index` and keeps the listing, and what the footers of Parquet
            and Arrow files say. The first run makes it; every rank and every later run read it and list nothing.
            `fp.index` makes its next version. Relative paths become absolute in it.
        version: the version of the index; by default that of the state that a loader loads, else the newest.

    Raises:
        ArgumentTypeError: `paths` is a pipe, or no path.
        SourceError: a path is missing, cannot be listed, matches no file, or is no file, such as a device; `paths` is
            empty; the index cannot be read or written.
        ArgumentError: `manifest` is no index, or was made for other `paths`, `pattern` or `recursive`; braces stand for
            more than ten million paths; `version` is given without an index.
        MissingError: the index has no such version.
        DataError: the index is damaged, or another kind of file.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> for name in ("b.txt", "a.txt", "notes.md"):
        ...     _ = pathlib.Path(name).write_text("hello")
        >>> list(fp.list_files("*.txt"))
        ['a.txt', 'b.txt']
    """
    if isinstance(paths, Pipe):
        raise ArgumentTypeError(
            "`paths` must be paths but got a pipe, whose paths are known only when it runs; chain the reader "
            "after it, as in `pipe.open_files().parse_csv()`"
        )
    selection = Selection(
        cast("str", paths), pattern, bool(recursive), filesystem, cast("str | None", manifest), version
    )
    if selection.manifest is not None and not is_index(selection.manifest):
        raise ArgumentError(
            f"`manifest` must be the path of an index, which ends with {SUFFIX!r}, but got: {manifest!r}; `fp.index` "
            "makes one, and writers of tables with `index=True`"
        )
    if version is not None:
        check_int("version", version, least=1)
        if selection.manifest is None:
            raise ArgumentError("`version` is that of an index, and needs its path, `manifest`")
    return cast("Pipe[str]", Pipe.source(ListFiles(selection)))


@dataclass(frozen=True, eq=False, repr=False)
class ListFiles(UnitSource):
    kind: ClassVar[str] = "list_files"

    # Not part of a state: the same files may be in another place tomorrow. `identity` has what must stay the same.
    selection: Selection = field(repr=False)
    listing: Listing | Index | None = field(default=None, repr=False)
    saved_version: tuple[int, str] | None = field(default=None, repr=False, compare=False)
    """Of a state: the number of the version of the index, and its digest."""

    @property
    def index(self) -> Index | None:
        """The index that keeps the listing."""
        return self.listing if isinstance(self.listing, Index) else None

    def call(self) -> str:
        return call_code(self.selection)  # pyright: ignore[reportArgumentType]

    def resolve(self, stage: StageView) -> Operator:
        if self.listing is not None:
            return self
        try:
            return replace(self, listing=self._list())
        except (SourceError, DataError, ArgumentError, StateError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def _list(self) -> Listing | Index:
        if self.selection.manifest is None:
            return self.selection.listing()
        if self.saved_version is None or self.selection.version is not None:
            return open_index(self.selection)
        number, digest = self.saved_version
        opened = open_index(replace(self.selection, version=number))
        if opened.digest != digest:
            raise StateError(
                f"{opened.name} has the digest {opened.digest}, and the state was made with {digest}: the index was "
                "made again; load the state with the files that it was made with"
            )
        return opened

    def length(self, stage: StageView) -> int:
        return len(self._resolved_listing())

    def identity(self) -> Json:
        return {} if self.listing is None else {"files": len(self.listing), "digest": self.listing.files_digest}

    @classmethod
    def rows_of(cls, facts: Mapping[str, Json]) -> int | None:
        files = facts.get("files")
        return files if isinstance(files, int) else None

    def within(self, rows: range) -> Operator | None:
        part = self.listing.part(rows) if isinstance(self.listing, Listing) else None
        return None if part is None else replace(self, listing=part)

    def saved(self) -> str | None:
        opened = self.listing
        return json.dumps([opened.number, opened.digest]) if isinstance(opened, Index) else None

    def restored(self, saved: str) -> Operator:
        number, digest = json.loads(saved)
        if self.selection.manifest is None:
            return self
        return replace(self, saved_version=(int(number), str(digest)), listing=None)

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(self._resolved_listing().path(index), index + 1, "file")

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        return list[object](self._resolved_listing().files_at(indices))

    def weights(self, stage: StageView, context: Context) -> Weights:
        return self._resolved_listing().bytes_of_files()

    def reduce_for_worker(self) -> tuple[object, ...]:
        selection = vars(self.selection)
        return _restored, ({**selection, "paths": pack_list(selection["paths"])}, self.listing)

    def _resolved_listing(self) -> Listing | Index:
        assert self.listing is not None, "a run begins with `resolve`"
        return self.listing


def _restored(selection: dict[str, object], listing: Listing | Index | None) -> ListFiles:
    restored = object.__new__(Selection)
    vars(restored).update(selection)
    return ListFiles(restored, listing)
