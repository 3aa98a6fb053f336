"""`list_files`: the paths of files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Operator, StageView, Weights
from ..core.rows import BlockRows, Indices, index_array
from ..errors import ArgumentError, ArgumentTypeError, DataError, Origin, SourceError, with_call_site
from ..ops.parsing._open_files import at_call_site
from ..pipe import Pipe
from ..storage.cached_listing import cached_listing
from ..storage.listing import ListedPath, Listing, Selection
from ..storage.manifest import ManifestPlace
from ._packed import pack_list


@dataclass(frozen=True, eq=False)
class ListFiles(Operator):
    kind: ClassVar[str] = "list_files"

    # Not part of a state: the same files may be in another place tomorrow. `identity` has what must stay the same.
    selection: Selection = field(repr=False)
    listing: Listing | None = field(default=None, repr=False)

    @property
    def listed_in(self) -> ManifestPlace | None:
        """The manifest that keeps the listing."""
        if self.selection.manifest is None:
            return None
        return ManifestPlace(self.selection.manifest, self.selection.filesystem, self._resolved_listing().digest)

    def call(self) -> str:
        return call_code(self.selection)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def resolve(self, stage: StageView) -> Operator:
        if self.listing is not None:
            return self
        try:
            return replace(self, listing=cached_listing(self.selection))
        except (SourceError, DataError, ArgumentError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self._resolved_listing())

    def identity(self) -> Json:
        return {"files": len(self._resolved_listing()), "digest": self._resolved_listing().digest}

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(str(self._resolved_listing().paths[index]), index + 1, "file")

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        listing = self._resolved_listing()
        return list(map(ListedPath.of, _values_at(listing.paths, indices), _values_at(listing.sizes, indices)))

    def weights(self, stage: StageView, context: Context) -> Weights:
        return Weights(self._resolved_listing().sizes.to_numpy())

    def reduce_for_worker(self) -> tuple[object, ...]:
        selection = vars(self.selection)
        return _restored, ({**selection, "paths": pack_list(selection["paths"])}, self.listing)

    def _resolved_listing(self) -> Listing:
        assert self.listing is not None, "a run begins with `resolve`"
        return self.listing


def _values_at(column: Any, indices: Indices) -> list[Any]:
    if isinstance(indices, range) and indices.step == 1:
        return cast("list[Any]", column.slice(indices.start, len(indices)).to_pylist())
    return cast("list[Any]", column.take(index_array(indices)).to_pylist())


def _restored(selection: dict[str, object], listing: Listing | None) -> ListFiles:
    restored = object.__new__(Selection)
    vars(restored).update(selection)
    return ListFiles(restored, listing)


def list_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    pattern: str | None = None,
    recursive: bool = False,
    filesystem: object = None,
    manifest: str | os.PathLike[str] | None = None,
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
        pattern: in folders and globs, takes only files whose name matches this glob, such as "*.csv".
        recursive: in folders, takes the files in their subfolders as well; otherwise the log says if there are any.
        filesystem: a pyarrow or fsspec file system for `paths` and `manifest`; without it, they are local paths or
            URLs.
        manifest: the path of a file that keeps the listing. The first run writes it; every rank and every later run
            read it and list nothing. Remove it to list again. Relative paths become absolute in it. The manifest of
            `write_parquet` or `write_tar` serves too, with its folder as `paths`. What the footers of Parquet and Arrow
            files say is kept beside it, in a file that ends with `.units`, and not read again.

    Raises:
        ArgumentTypeError: `paths` is a pipe, or no path.
        SourceError: a path is missing, cannot be listed, stands for no file, or for something that is no file, such as
            a device; `paths` is empty; the manifest cannot be read or written.
        ArgumentError: the manifest was made for other `paths`, `pattern` or `recursive`; braces stand for more than
            ten million paths.
        DataError: the manifest is damaged, or another kind of file.

    Example:
        >>> import feedpipe as fp, pathlib
        >>> for name in ("b.txt", "a.txt", "notes.md"):
        ...     _ = pathlib.Path(name).write_text("hello")
        >>> list(fp.list_files("*.txt"))
        ['a.txt', 'b.txt']
    """
    if isinstance(paths, Pipe):
        raise ArgumentTypeError(
            with_call_site(
                "`paths` must be paths but got a pipe, whose paths are known only when it runs; chain the reader "
                "behind it, as in `pipe.open_files().parse_csv()`"
            )
        )
    selection = Selection(cast("str", paths), pattern, bool(recursive), filesystem, cast("str | None", manifest))
    return cast("Pipe[str]", Pipe.source(ListFiles(selection)))
