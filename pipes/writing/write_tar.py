"""`write_tar`: the rows of a pipe as members of tar files."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, cast

from ..errors import DataError
from ..formats.tar import KEY
from ..pipe import Pipe
from ._encoders import Encode, check_encoders, encoded
from ._shards import Limits, Run, Shard, Shards, check_pipe

_CHUNK = 16  # rows that cross from a worker at a time; they may hold images
_ENDING = re.compile(r"[^./\0]+(\.[^./\0]+)*")
_RECORD = 10240  # bytes: an archive is filled up to whole ones


class Group(NamedTuple):
    """A row, and the members that it is in an archive, with their headers."""

    key: str
    data: bytes


def write_tar(
    pipe: Pipe[Mapping[str, object]],
    folder: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    file_size: int | str | None = None,
    encoders: Mapping[str, Encode] | None = None,
    filesystem: object = None,
    workers: int = 0,
    progress: bool = True,
    overwrite: bool = False,
) -> str:
    """Write the rows of a pipe into tar files `part-00000.tar` and so on, and give the path of their manifest.

    The layout is WebDataset's. Element: a dict with `__key__`, a name such as "train/000017", and a value for each
    extension: the value of `jpg` becomes the member `train/000017.jpg`. Bytes are written as they are; else the last
    part of the extension says how a value is encoded: `json`; `txt` and `text`, a string as UTF-8; `cls` and `index`,
    an int; `npy`, an array; `jpg` (quality 95), `jpeg`, `png`, `bmp`, `ppm`, `tif`, `webp`, a uint8 array of
    (height, width), also with 3 or 4 channels behind, or an image of Pillow. Order: that of `Loader(pipe,
    workers=workers)` in epoch 0 with seed 0, the same in each run; it is the pipe's own, unless the pipe is streamed
    and read by several workers. Two runs write equal bytes. Memory: a few rows, and the keys of a file.

    A file has its name only when it is whole. `_manifest.jsonl` comes last, with the rows, bytes and checksum of each
    file: where it is, all of them are. See `verify`, and `manifest=` of the readers. A run that fails or is killed
    leaves the files it has finished, and no half one. Of a pipe without rows an archive without members is written.

    Args:
        pipe: gives the rows.
        folder: a path or URL; it must be empty or not there, see `overwrite`.
        rows_per_file: rows of each file but the last.
        file_size: in place of that, the most bytes of a file, such as "1GiB", unless a single row takes more. By
            default 256 MiB.
        encoders: functions that give bytes, by extension, before those above.
        filesystem: a pyarrow or fsspec file system that `folder` is on; else it is a local path or a URL.
        workers: processes that run the pipe and encode; this one writes.
        progress: on a terminal, shows rows, files and bytes.
        overwrite: removes the files of an earlier run in `folder`; never those of others, nor files that the pipe has
            from `list_files`.

    Raises:
        ArgumentError: the folder is not empty.
        RowError: a row has no fit key, a name that readers would take for another, or a value that cannot be encoded.
        DataError: a key comes twice in one file.
        SourceError: a file cannot be written.

    Example:
        >>> import feedpipe as fp
        >>> pipe = fp.from_sequence(range(3)).map(lambda i: {"__key__": f"{i:06}", "cls": i, "json": {"square": i * i}})
        >>> fp.write_tar(pipe, "squares")
        'squares/_manifest.jsonl'
        >>> fp.read_tar("squares").head(1)
        [{'__key__': '000000', 'cls': b'0', 'json': b'{"square": 0}'}]
    """
    limits = Limits(rows_per_file, file_size)
    check_pipe(pipe)
    run = Run(pipe.map(tar_members(check_encoders(encoders))), _CHUNK, workers)
    with Shards(
        run, folder, "write_tar", "tar", filesystem=filesystem, progress=progress, overwrite=overwrite
    ) as files:
        groups = cast("Iterator[Group]", chain.from_iterable(run))
        waiting = next(groups, None)
        while True:  # an archive without members, where there is no row
            with files.file() as shard:
                waiting = _fill(shard, waiting, groups, limits)
            if waiting is None:
                break
        return files.finish()


def _fill(shard: Shard, group: Group | None, groups: Iterator[Group], limits: Limits) -> Group | None:
    """Writes rows until the file is full, beginning with `group`; the first that has no place in it."""
    keys: set[str] = set()
    while group is not None:
        full = limits.bytes is not None and _ended(shard.bytes + len(group.data)) > limits.bytes
        if shard.rows == limits.rows or (shard.rows and full):
            break
        if group.key in keys:
            raise DataError(f"the key {group.key!r} comes twice in one file; a `.map` can make keys that differ")
        keys.add(group.key)
        shard.write(group.data)
        shard.wrote(1)
        group = next(groups, None)
    shard.write(bytes(_ended(shard.bytes) - shard.bytes))
    return group


def _ended(size: int) -> int:
    """Bytes of an archive whose members take `size`, with the two blocks of zeros that end it."""
    return -(-(size + 2 * tarfile.BLOCKSIZE) // _RECORD) * _RECORD


@dataclass(frozen=True)
class tar_members:  # noqa: N801 - a function and what it needs; errors show the name
    """Makes a `Group` of a row."""

    encoders: Mapping[str, Encode]

    def __call__(self, row: Mapping[str, object]) -> Group:
        if not isinstance(row, Mapping):
            raise TypeError(
                f"`write_tar` writes rows that are dicts but got one of type {type(row).__name__}; `.unbatch()` gives "
                "the rows of batches, and `.map` can make dicts"
            )
        key = _checked_key(row.get(KEY))
        members = {name: value for name, value in row.items() if name != KEY}
        if not members:
            raise ValueError(f"row {key!r} has nothing but its key")
        return Group(key, b"".join(self._member(key, name, value) for name, value in members.items()))

    def _member(self, key: str, ending: object, value: object) -> bytes:
        if not isinstance(ending, str) or not _ENDING.fullmatch(ending) or ending != ending.lower():
            raise ValueError(
                f"row {key!r} must have extensions in lower case, such as 'jpg' or 'seg.png', but has: {ending!r}"
            )
        try:
            data = encoded(ending, value, self.encoders)
        except Exception as error:
            raise ValueError(f"`{ending}` of row {key!r} cannot be encoded: {error}") from error
        # It says nothing of the machine and of the time: equal rows are equal bytes.
        info = tarfile.TarInfo(f"{key}.{ending}")
        info.size = len(data)
        header = info.tobuf(tarfile.PAX_FORMAT, "utf-8")
        return b"".join((header, data, bytes(-len(data) % tarfile.BLOCKSIZE)))


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a row needs a string as `{KEY}`, the name of its members, but has: {key!r}")
    folders = key.split("/")
    if "\0" in key or any(folder in ("", ".", "..") for folder in folders):
        raise ValueError(f"`{KEY}` must be a relative path, without `.` and `..` in it, but is: {key!r}")
    if "." in folders[-1]:
        raise ValueError(
            f"`{KEY}` must have no dot behind its last slash, as there the extension begins, but is: {key!r}"
        )
    if re.fullmatch(r"__.*__", folders[0]):
        raise ValueError(f"`{KEY}` must not begin as in `__meta__`, which readers leave out, but is: {key!r}")
    return key
