"""Prepares the folder for a run: makes it, or removes the files of an earlier run."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

from ..core.graph import Node, walk
from ..errors import ArgumentError, SourceError, with_call_site
from ..sources.list_files import ListFiles
from ..storage.error_messages import describe
from ..storage.filesystem import Location, locate
from ..storage.output import TEMPORARY_SUFFIX

MANIFEST = "_manifest.jsonl"
"""The name of a manifest beside its files. It begins with `_`, so that no listing takes it for data."""

# Readers keep the units of the files beside the manifest.
_OURS = re.compile(
    rf"part-\d{{5,}}\.(arrow|parquet|tar|tfrecord|tfrecord\.gz|index)|\..*{re.escape(TEMPORARY_SUFFIX)}|{re.escape(MANIFEST)}(\.units)?"
)


def prepare(folder: str, filesystem: object, root: Node, *, overwrite: bool) -> None:
    """Makes the folder, or removes the files of an earlier run, unless `root` reads them.

    Raises:
        ArgumentError: the folder holds files that must not be removed.
        SourceError: the folder cannot be made, listed or emptied.
    """
    place = make_folder(folder, filesystem)
    paths, folders = _entries(place, folder)
    if not paths:
        return
    foreign = next((name for name in sorted(paths) if not _OURS.fullmatch(name.rpartition("/")[2])), None)
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
    for path in folders:
        with suppress(OSError):  # an object store has no folders
            place.filesystem.delete_dir(path)


def make_folder(folder: str, filesystem: object) -> Location:
    """Makes a folder unless it is there.

    Raises:
        SourceError: it cannot be made.
    """
    place = locate(folder, filesystem)
    try:
        place.filesystem.create_dir(place.path)
    except OSError as error:
        raise SourceError(with_call_site(f"{folder} cannot be written to: {describe(error)}")) from error
    return place


def _entries(place: Location, folder: str) -> tuple[dict[str, str], list[str]]:
    """The paths of what is in the folder by their names below it, and those of folders such as `year=2024` in it.

    Files of a folder `year=2024` count; it itself does not.
    """
    from pyarrow.fs import FileSelector, FileType

    paths: dict[str, str] = {}
    folders: list[str] = []
    waiting = [(place.path, "")]
    while waiting:
        path, prefix = waiting.pop()
        try:
            entries = place.filesystem.get_file_info(FileSelector(path))
        except OSError as error:
            raise SourceError(with_call_site(f"{folder} cannot be written to: {describe(error)}")) from error
        for info in entries:
            if info.type == FileType.Directory and "=" in info.base_name:
                waiting.append((info.path, f"{prefix}{info.base_name}/"))
                folders += [] if prefix else [info.path]
            else:
                paths[prefix + info.base_name] = info.path
    return paths, folders


def _reads_folder(root: Node, folder: str, filesystem: object) -> bool:
    """Whether a listing of the pipe has files of the folder."""
    import pyarrow.compute as pc

    call: Any = pc
    where = _real_place(folder, filesystem)
    for node in walk(root):
        if isinstance(node.op, ListFiles) and node.op.listing is not None:
            folders = call.replace_substring_regex(node.op.listing.paths, "/?[^/]*$", "").unique().to_pylist()
            for read in folders:
                kind, path = _real_place(read or ".", node.op.selection.filesystem)
                if kind == where[0] and f"{path}/".startswith(f"{where[1]}/"):
                    return True
    return False


def _real_place(folder: str, filesystem: object) -> tuple[str, str]:
    place = locate(folder, filesystem)
    kind = str(place.filesystem.type_name)
    return kind, os.path.realpath(place.path) if kind == "local" else place.path
