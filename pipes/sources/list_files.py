"""`list_files`: the paths of files, and listings that are kept."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Operator, StageView, Weights
from ..core.rows import BlockRows, Indices, index_array
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    MissingError,
    Origin,
    SourceError,
    redacted,
    with_call_site,
)
from ..files.open_files import at_call_site
from ..pipe import Pipe
from ..storage.listing import BATCH_FILES, ListedPath, Listing, Selection, add_to_digest
from ..storage.manifest import Manifest, ManifestPlace, folder_of, manifest_schema, read_manifest, write_manifest
from .from_sequence import pack_list

if TYPE_CHECKING:
    import pyarrow as pa


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
        SourceError: a path is missing, cannot be listed, matches no file, or for something that is no file, such as
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


# Manifests that keep a listing


_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]+:)"  # or a URL


def cached_listing(selection: Selection) -> Listing:
    """Lists the files of a selection, or reads its manifest; writes the manifest if it is missing.

    Raises:
        SourceError: a path is missing, cannot be listed, or matches no file; the manifest cannot be read or written.
        DataError: the manifest is damaged, or another kind of file.
        ArgumentError: the manifest belongs to another selection.
    """
    path = selection.manifest
    if path is None:
        return selection.listing()
    try:
        manifest = read_manifest(path, selection.filesystem)
    except MissingError:
        return _list_and_write(selection, path)
    if manifest.made_by != "list_files":
        return _listing_of_writer(selection, path, manifest)
    if manifest.details.get("selected") != _selection_digest(selection):
        raise ArgumentError(
            f"{path} was made by `{manifest.details.get('call')}`, and this is `{_call(selection)}`, perhaps from "
            "another folder; remove the file, and it will be written again, or give another `manifest`"
        )
    digest = manifest.details.get("digest")
    if not isinstance(digest, str):
        raise DataError(f"{path} is damaged: its first line must have the `digest` of the files")
    return Listing(manifest.paths(path, selection.filesystem), _sizes(manifest), digest)


def _list_and_write(selection: Selection, path: str) -> Listing:
    """Lists the files and writes the manifest. Several processes may do so at once, since all write the same."""
    import pyarrow as pa

    if any(redacted(name) != name for name in _paths(selection)):
        raise ArgumentError(
            f"`manifest` would keep the password in `paths` in {path}; give the password in the environment or with "
            "`filesystem`"
        )
    listing = selection.listing()
    paths = listing.paths if selection.filesystem is not None else _absolute_paths(listing.paths)
    sizes: Any = pa.array(listing.sizes.to_numpy(), mask=listing.sizes.to_numpy() < 0)
    rows, checksums = pa.nulls(len(listing), pa.int64()), pa.nulls(len(listing), pa.string())
    files = pa.Table.from_arrays([paths, sizes, rows, checksums], schema=manifest_schema())
    details = {"call": _call(selection), "selected": _selection_digest(selection), "digest": listing.digest}
    write_manifest(Manifest("list_files", files, details), path, selection.filesystem)
    return Listing(paths, listing.sizes, listing.digest)


def _listing_of_writer(selection: Selection, path: str, manifest: Manifest) -> Listing:
    """The files in the manifest of a writer."""
    folder = folder_of(path, selection.filesystem)
    paths = [_absolute_path(name, selection) for name in _paths(selection)]
    if paths != [_absolute_path(folder, selection)] or selection.pattern is not None:
        raise ArgumentError(
            f"{path} was made by `{manifest.made_by}`, and stands for all files that it wrote: `paths` must be its "
            f"folder {folder!r}, without `pattern`, but this is `{_call(selection)}`"
        )
    if not len(manifest.files):
        raise SourceError(f"{path} names no file: `{manifest.made_by}` wrote no row")
    sizes = _sizes(manifest)
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, len(sizes), BATCH_FILES):
        names = manifest.files["path"].slice(start, BATCH_FILES).to_pylist()
        add_to_digest(digest, cast("list[str]", names), sizes.slice(start, BATCH_FILES))
    return Listing(manifest.paths(path, selection.filesystem), sizes, digest.hexdigest())


def _sizes(manifest: Manifest) -> pa.Int64Array:
    import pyarrow as pa

    sizes: Any = manifest.files["bytes"]
    return cast("pa.Int64Array", pa.concat_arrays([pa.array([], pa.int64()), *sizes.fill_null(-1).chunks]))


def _selection_digest(selection: Selection) -> str:
    """A digest of the arguments, the same for relative and absolute paths to one place."""
    paths = [_absolute_path(path, selection) for path in _paths(selection)]
    arguments = [paths, selection.pattern, selection.recursive]
    return hashlib.blake2b(json.dumps(arguments).encode(), digest_size=16).hexdigest()


def _paths(selection: Selection) -> list[str]:
    return [selection.paths] if isinstance(selection.paths, str) else selection.paths


def _call(selection: Selection) -> str:
    return redacted(call_code(cast("Any", replace(selection, filesystem=None, manifest=None))))


def _absolute_path(path: str, selection: Selection) -> str:
    path = path.rstrip("/") or "/"
    if selection.filesystem is not None:
        return path
    path = os.path.expanduser(path)
    return path if re.match(_ABSOLUTE, path) else os.path.join(os.getcwd(), path)


def _absolute_paths(paths: pa.LargeStringArray) -> pa.LargeStringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    call: Any = pc
    folder, empty = (pa.scalar(text, pa.large_string()) for text in (os.getcwd() + "/", ""))
    joined = call.binary_join_element_wise(folder, paths, empty)
    return cast("pa.LargeStringArray", call.if_else(call.match_substring_regex(paths, _ABSOLUTE), paths, joined))
