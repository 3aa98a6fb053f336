"""`list_files`: the paths of files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np

from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Operator
from ..core.rows import BlockRows, Indices
from ..engine.stage import Stage
from ..errors import ArgumentError, DataError, Origin, SourceError, with_call_site
from ..pipe import Pipe
from ..storage.cached_listing import cached_listing
from ..storage.listing import ListedPath, Listing, Selection
from ._packed import packed


@dataclass(frozen=True, eq=False)
class ListFiles(Operator):
    kind: ClassVar[str] = "list_files"

    # Not a part of a state's fingerprint: the same files may lie elsewhere tomorrow. `identity` holds what counts.
    selection: Selection = field(repr=False)
    listing: Listing | None = field(default=None, repr=False)

    def call(self) -> str:
        return call_code(self.selection)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def resolve(self, stage: Stage) -> Operator:
        if self.listing is not None:
            return self
        try:
            return replace(self, listing=cached_listing(self.selection))
        except (SourceError, DataError, ArgumentError) as error:
            raise type(error)(with_call_site(str(error), stage.node.call_site)) from error

    def length(self, stage: Stage) -> int:
        return len(self._listed())

    def identity(self) -> Json:
        return {"files": len(self._listed()), "digest": self._listed().digest}

    def origin(self, stage: Stage, index: int, context: Context) -> Origin:
        return Origin(str(self._listed().paths[index]), 1)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        listing = self._listed()
        return list(map(ListedPath.of, _at(listing.paths, indices), _at(listing.sizes, indices)))

    def reduce_for_worker(self) -> tuple[object, ...]:
        selection = vars(self.selection)
        return _restored, ({**selection, "paths": packed(selection["paths"])}, self.listing)

    def _listed(self) -> Listing:
        assert self.listing is not None, "a run begins with `resolve`"
        return self.listing


def _at(column: Any, indices: Indices) -> list[Any]:
    if isinstance(indices, range) and indices.step == 1:
        return cast("list[Any]", column.slice(indices.start, len(indices)).to_pylist())
    return cast("list[Any]", column.take(np.asarray(indices, np.int64)).to_pylist())


def _restored(selection: dict[str, object], listing: Listing | None) -> ListFiles:
    made = object.__new__(Selection)
    vars(made).update(selection)
    return ListFiles(made, listing)


def list_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
) -> Pipe[str]:
    """Begin a pipe with the paths of files.

    Element: a path, as `paths` begins it: relative stays relative, a URL stays a URL. Order: that of `paths`; the files
    of one folder or glob are sorted by name, so the order is the same on every machine. Length: the number of files;
    indexed. The files are listed once, at the first look; a million paths take about 50 MB. State: a position; it knows
    the names below each root and the sizes, and is refused where they have changed.

    In folders and by wild cards, names that begin with `.` or `_` are left out, unless a pattern begins with that
    character. A file that several of `paths` stand for comes several times.

    Args:
        paths: a file, a folder, a glob (`*`, `?`, `[...]`, and `**` for folders of any depth), or a list of those.
        pattern: in folders and globs, takes only files whose name matches this glob, such as "*.csv".
        recursive: in folders, takes the files in folders below as well.
        filesystem: a pyarrow or fsspec file system that `paths` and `manifest` are on; else they are local paths or
            URLs.
        manifest: the path of a file that keeps the listing: written when there is none, read in place of listing when
            there is one, by every rank and in every later run; remove it to list again. Relative paths become absolute.
            The manifest of `write_parquet` or `write_tar` serves too, with its folder as `paths`.

    Raises:
        SourceError: a path is missing or cannot be listed, or stands for no file; `paths` is empty; the manifest cannot
            be read or written.
        ArgumentError: the manifest was made for other `paths`, `pattern` or `recursive`.
        DataError: the manifest is none, or damaged.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> for name in ("b.txt", "a.txt", "notes.md"):
        ...     _ = pathlib.Path(name).write_text("hello")
        >>> list(fp.list_files("*.txt"))
        ['a.txt', 'b.txt']
    """
    chosen = Selection(cast("str", paths), pattern, bool(recursive), filesystem, cast("str | None", manifest))
    return cast("Pipe[str]", Pipe.source(ListFiles(chosen)))
