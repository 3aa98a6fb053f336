"""Listings that are written once, to a manifest, and read from there in place of listing again."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..core.code import call_code
from ..errors import ArgumentError, DataError, MissingError, SourceError, redacted
from .listing import BATCH, Listing, Selection, add_to_digest
from .manifest import Manifest, columns, read_manifest, write_manifest
from .output import folder_of

if TYPE_CHECKING:
    import pyarrow as pa

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]+:)"  # or a URL


def cached_listing(selection: Selection) -> Listing:
    """What the selection stands for; from its manifest, which is made where there is none.

    Raises:
        SourceError: a path is missing, cannot be listed, or stands for no file; the manifest cannot be read or written.
        DataError: the manifest is none, or damaged.
        ArgumentError: the manifest is of another selection.
    """
    path = selection.manifest
    if path is None:
        return selection.listing()
    try:
        manifest = read_manifest(path, selection.filesystem)
    except MissingError:
        return _made(selection, path)
    if manifest.made_by != "list_files":
        return _written(selection, path, manifest)
    if manifest.details.get("selected") != _selected(selection):
        raise ArgumentError(
            f"{path} was made by `{manifest.details.get('call')}`, and this is `{_call(selection)}`, perhaps from "
            "another folder; remove it to have it made again, or give another `manifest`"
        )
    digest = manifest.details.get("digest")
    if not isinstance(digest, str):
        raise DataError(f"{path} is damaged: its first line must have the `digest` of the files")
    return Listing(manifest.paths(path, selection.filesystem), _sizes(manifest), digest)


def _made(selection: Selection, path: str) -> Listing:
    """Lists, and writes the manifest. Where several do so at once, the last one stays, and the same stands in it."""
    import pyarrow as pa

    if any(redacted(one) != one for one in _given(selection)):
        raise ArgumentError(
            f"`manifest` would keep the password that `paths` holds in {path}; give it in the environment, or with "
            "`filesystem`"
        )
    listing = selection.listing()
    paths = listing.paths if selection.filesystem is not None else _absolute(listing.paths)
    sizes: Any = pa.array(listing.sizes.to_numpy(), mask=listing.sizes.to_numpy() < 0)
    rows, checksums = pa.nulls(len(listing), pa.int64()), pa.nulls(len(listing), pa.string())
    files = pa.Table.from_arrays([paths, sizes, rows, checksums], schema=columns())
    details = {"call": _call(selection), "selected": _selected(selection), "digest": listing.digest}
    write_manifest(Manifest("list_files", files, details), path, selection.filesystem)
    return Listing(paths, listing.sizes, listing.digest)


def _written(selection: Selection, path: str, manifest: Manifest) -> Listing:
    """The files that a writer made."""
    folder = folder_of(path, selection.filesystem)
    given = [_full(one, selection) for one in _given(selection)]
    if given != [_full(folder, selection)] or selection.pattern is not None:
        raise ArgumentError(
            f"{path} was made by `{manifest.made_by}`, and stands for all files that it wrote: `paths` must be its "
            f"folder {folder!r}, without `pattern`, but this is `{_call(selection)}`"
        )
    if not len(manifest.files):
        raise SourceError(f"{path} names no file: `{manifest.made_by}` wrote no row")
    sizes = _sizes(manifest)
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, len(sizes), BATCH):
        names = manifest.files["path"].slice(start, BATCH).to_pylist()
        add_to_digest(digest, cast("list[str]", names), sizes.slice(start, BATCH))
    return Listing(manifest.paths(path, selection.filesystem), sizes, digest.hexdigest())


def _sizes(manifest: Manifest) -> pa.Int64Array:
    import pyarrow as pa

    sizes: Any = manifest.files["bytes"]
    return cast("pa.Int64Array", pa.concat_arrays([pa.array([], pa.int64()), *sizes.fill_null(-1).chunks]))


def _selected(selection: Selection) -> str:
    """A digest of what was asked for, wherever it was asked."""
    asked = [[_full(path, selection) for path in _given(selection)], selection.pattern, selection.recursive]
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()


def _given(selection: Selection) -> list[str]:
    return [selection.paths] if isinstance(selection.paths, str) else selection.paths


def _call(selection: Selection) -> str:
    return redacted(call_code(cast("Any", replace(selection, filesystem=None, manifest=None))))


def _full(path: str, selection: Selection) -> str:
    path = path.rstrip("/") or "/"
    if selection.filesystem is not None:
        return path
    path = os.path.expanduser(path)
    return path if re.match(_ABSOLUTE, path) else os.path.join(os.getcwd(), path)


def _absolute(paths: pa.LargeStringArray) -> pa.LargeStringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    call: Any = pc
    here, none = (pa.scalar(text, pa.large_string()) for text in (os.getcwd() + "/", ""))
    joined = call.binary_join_element_wise(here, paths, none)
    return cast("pa.LargeStringArray", call.if_else(call.match_substring_regex(paths, _ABSOLUTE), paths, joined))
