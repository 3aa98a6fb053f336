"""Listings that are written to a manifest once and then read from it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..core.code import call_code
from ..errors import ArgumentError, DataError, MissingError, SourceError, redacted
from .file_names import BATCH_FILES, add_to_digest
from .listing import Listing, Selection
from .manifest import Manifest, manifest_schema, read_manifest, write_manifest
from .output import folder_of

if TYPE_CHECKING:
    import pyarrow as pa

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]+:)"  # or a URL


def cached_listing(selection: Selection) -> Listing:
    """Lists the files of a selection, or reads its manifest; writes the manifest if there is none yet.

    Raises:
        SourceError: a path is missing, cannot be listed, or stands for no file; the manifest cannot be read or written.
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
    """Lists the files and writes the manifest. Several processes may do so at once: all write the same."""
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
    """The files of a manifest that a writer has written."""
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
    """A digest of the arguments; relative and absolute paths to the same place give the same digest."""
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
