"""Prepares the folder for a run: makes it, or removes the files of an earlier run."""

from __future__ import annotations

import os
import re
from typing import Any

from ..core.graph import Node, walk
from ..errors import ArgumentError, SourceError, with_call_site
from ..sources.list_files import ListFiles
from ..storage.error_messages import describe
from ..storage.filesystem import locate
from ..storage.output import TEMPORARY_SUFFIX

MANIFEST = "_manifest.jsonl"
"""The name of a manifest beside its files. It begins with `_`, so that no listing takes it for data."""

_OURS = re.compile(
    rf"part-\d{{5,}}\.(arrow|parquet|tar|tfrecord|tfrecord\.gz|index)|\..*{re.escape(TEMPORARY_SUFFIX)}|{re.escape(MANIFEST)}"
)


def prepare(folder: str, filesystem: object, root: Node, *, overwrite: bool) -> None:
    """Makes the folder, or removes the files of an earlier run, unless `root` reads them.

    Raises:
        ArgumentError: the folder holds files that must not be removed.
        SourceError: the folder cannot be made, listed or emptied.
    """
    from pyarrow.fs import FileSelector

    place = locate(folder, filesystem)
    try:
        place.filesystem.create_dir(place.path)
        entries = place.filesystem.get_file_info(FileSelector(place.path))
    except OSError as error:
        raise SourceError(with_call_site(f"{folder} cannot be written to: {describe(error)}")) from error
    paths = {info.base_name: info.path for info in entries}
    if not paths:
        return
    foreign = next((name for name in sorted(paths) if not _OURS.fullmatch(name)), None)
    if foreign is not None:
        raise ArgumentError(
            with_call_site(
                f"`folder` must be empty, or hold an earlier run, but {folder} holds {foreign!r}; choose another folder"
            )
        )
    if not overwrite:
        state = "a run" if MANIFEST in paths else "a run that was not finished"
        raise ArgumentError(
            with_call_site(f"{folder} holds {state}: `overwrite=True` removes it, or choose another folder")
        )
    if _reads_folder(root, folder, filesystem):
        raise ArgumentError(
            with_call_site(f"{folder} holds files that the pipe reads, so it cannot be emptied; choose another folder")
        )
    # Remove the manifest first: a folder with a manifest has all its files.
    for name in sorted(paths, key=lambda name: name != MANIFEST):
        try:
            place.filesystem.delete_file(paths[name])
        except OSError as error:
            raise SourceError(with_call_site(f"{folder}/{name} cannot be removed: {describe(error)}")) from error


def _reads_folder(root: Node, folder: str, filesystem: object) -> bool:
    """Whether a listing of the pipe has files of the folder."""
    import pyarrow.compute as pc

    call: Any = pc
    where = _real_place(folder, filesystem)
    for node in walk(root):
        if isinstance(node.op, ListFiles) and node.op.listing is not None:
            folders = call.replace_substring_regex(node.op.listing.paths, "/?[^/]*$", "").unique().to_pylist()
            if any(_real_place(read or ".", node.op.selection.filesystem) == where for read in folders):
                return True
    return False


def _real_place(folder: str, filesystem: object) -> tuple[str, str]:
    place = locate(folder, filesystem)
    kind = str(place.filesystem.type_name)
    return kind, os.path.realpath(place.path) if kind == "local" else place.path
