"""Listings: the files that paths, folders and globs stand for, as Arrow columns."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from ..errors import ArgumentError, ArgumentTypeError, MissingError, SourceError, with_call_site
from .braces import expand_braces
from .error_messages import describe, says_missing
from .file_names import BATCH_FILES, FileNames
from .filesystem import (
    Location,
    as_paths,
    check_filesystem,
    file_infos,
    is_local,
    locate,
    why_missing,
)
from .local_entries import FolderEntry, check_readable, scan
from .retry import with_retries
from .tasks import in_threads, in_turn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileInfo, FileSystem

log = logging.getLogger("feedpipe")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Listing:
    """Files in order.

    Attributes:
        paths: as a user would write them.
        sizes: bytes of each file; -1 if the storage does not say.
        digest: of the names below the roots and of the sizes. A copy of the files in another place has the same digest.
    """

    paths: pa.LargeStringArray
    sizes: pa.Int64Array
    digest: str

    def __len__(self) -> int:
        return len(self.paths)


class ListedPath(str):
    """A path with the size of its file when it was listed, which is not looked up again and reveals a change."""

    __slots__ = ("size",)
    size: int

    @staticmethod
    def of(path: str, size: int) -> ListedPath:
        listed = ListedPath(path)
        listed.size = size
        return listed


@dataclass(frozen=True)
class Selection:
    """What to list: the arguments of `list_files`."""

    kind: ClassVar[str] = "list_files"

    paths: str | list[str]
    pattern: str | None = None
    recursive: bool = False
    filesystem: object = None
    manifest: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", as_paths(self.paths))
        if self.pattern is not None and not isinstance(self.pattern, str):
            raise ArgumentTypeError(with_call_site(f"`pattern` must be a string but got: {self.pattern!r}"))
        if self.pattern is not None and ("/" in self.pattern or not self.pattern):
            raise ArgumentError(
                with_call_site(
                    f"`pattern` must be a glob for a file's name, such as '*.csv', but got: {self.pattern!r}; "
                    "folders go into `paths`"
                )
            )
        check_filesystem(self.filesystem)
        if self.manifest is not None:
            if not isinstance(self.manifest, (str, os.PathLike)):
                raise ArgumentTypeError(with_call_site(f"`manifest` must be a path but got: {self.manifest!r}"))
            object.__setattr__(self, "manifest", os.fspath(self.manifest))

    def listing(self) -> Listing:
        """Lists the files in the order of the paths, those of one folder or glob sorted by name.

        It does not read or write a manifest.

        Raises:
            SourceError: a path is missing, cannot be listed, or stands for no file.
        """
        import pyarrow as pa

        batches: list[pa.RecordBatch] = []
        digest = hashlib.blake2b(digest_size=16)
        single = FileNames()  # paths of files, for which no folder is read
        selected = [self.paths] if isinstance(self.paths, str) else self.paths
        for path, place, kind, size in _look_up(selected, self.filesystem):
            if kind == "File":
                single.add(place.root + place.path + place.options, size)
                continue
            if single.count:
                batches.append(single.to_batch(digest, prefix=None))
                single = FileNames()
            if kind == "Directory":
                glob = ("**/" if self.recursive else "") + (self.pattern or "*")
                walk = _Walk(place.path, glob, None, folder=True)
            elif _WILD.search(place.path):
                walk = _Walk(*_split_glob(place.path), self.pattern, folder=False)
            else:
                if place.filesystem.type_name == "local":
                    check_readable(place.path)
                raise MissingError(f"{path} is not there: {why_missing(place)}")
            names = FileNames(place.root + _with_slash(walk.base))
            walk.collect(names, place.filesystem, path)
            if not names.count:
                raise SourceError(walk.no_files_message(path))
            walk.log_folders(path)
            batches.append(names.to_batch(digest, prefix=place.root + _with_slash(walk.base), suffix=place.options))
        if single.count:
            batches.append(single.to_batch(digest, prefix=None))
        batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        paths, sizes = cast("tuple[Any, Any]", batch.columns)
        return Listing(paths, sizes, digest.hexdigest())


class _FolderToList(NamedTuple):
    """A folder of a walk.

    Attributes:
        prefix: its path from the base, with a slash at the end.
        identities: of the folders from the base to this one.
    """

    prefix: str
    identities: tuple[object, ...]


class _Walk:
    """Finds the files below `base` whose path from there matches a glob, and whose name matches `pattern`.

    It leaves out names that begin with `.` or `_`, such as markers, caches and temporary files, unless the glob's part
    for the name begins with the same character.
    """

    def __init__(self, base: str, glob: str, pattern: str | None, *, folder: bool) -> None:
        self.base = base
        parts = glob.split("/")
        if parts[-1] == "**":
            parts.append("*")
        self._is_folder = folder
        self._file_glob = pattern or (parts[-1] if folder and parts[-1] != "*" else None)
        self._path = re.compile("".join(_part_regex(part, last=i == len(parts) - 1) for i, part in enumerate(parts)))
        self._name = re.compile(_part_regex(pattern, last=True)) if pattern else None
        depth = parts.index("**") if "**" in parts else len(parts) - 1
        self._levels = [re.compile(_part_regex(part, last=True)) for part in parts[:depth]]
        self._any_depth = "**" in parts
        self._hidden = any(part[:1] in "._" for part in parts if part)
        self._file_count = 0
        self._folder_count = 0
        self._first_file = ""

    def collect(self, names: FileNames, filesystem: FileSystem, path: str) -> None:
        """Adds the files to `names`; `path` is the user's, for errors."""
        try:
            folders = [_FolderToList("", (_identity(filesystem, self.base or "."),))]
            while folders:  # all folders of one depth, then all of the next
                listings = _entries(filesystem, [_with_slash(self.base) + folder.prefix or "." for folder in folders])
                folders = [
                    inner
                    for folder, entries in zip(folders, listings, strict=True)
                    for inner in self._collect_folder(names, filesystem, folder, entries)
                ]
        except OSError as error:
            if isinstance(error, SourceError):
                raise
            if says_missing(error):
                raise MissingError(f"{path} is not there, or a part of it vanished while it was listed") from error
            raise SourceError(f"{path} cannot be listed: {describe(error)}") from error

    def _collect_folder(
        self, names: FileNames, filesystem: FileSystem, folder: _FolderToList, entries: Iterable[FolderEntry]
    ) -> list[_FolderToList]:
        """Adds the files of a folder, and returns the folders in it that must be listed too."""
        prefix, above = folder
        inside: list[str] = []
        for name, is_folder, size in entries:
            if is_folder:
                self._folder_count += name[:1] not in "._"
                if self._descends(name, len(above) - 1):
                    inside.append(name)
                continue
            self._file_count += 1
            self._first_file = self._first_file or prefix + name
            if self._path.fullmatch(prefix + name) and (self._name is None or self._name.fullmatch(name)):
                if size is None:
                    check_readable(f"{_with_slash(self.base)}{prefix}{name}")
                    continue  # it has vanished
                names.add(prefix + name, size)
        inner = [(name, _identity(filesystem, f"{_with_slash(self.base)}{prefix}{name}")) for name in inside]
        # A link to a folder above would never end.
        return [_FolderToList(f"{prefix}{name}/", (*above, it)) for name, it in inner if it is None or it not in above]

    def _descends(self, name: str, depth: int) -> bool:
        if depth < len(self._levels):
            return bool(self._levels[depth].fullmatch(name))
        return self._any_depth and (self._hidden or name[:1] not in "._")

    def log_folders(self, path: str) -> None:
        """Says in the log that a folder with files has folders too, whose files are left out."""
        if self._is_folder and self._folder_count and not self._any_depth:
            some = "1 folder" if self._folder_count == 1 else f"{self._folder_count} folders"
            log.warning("%s holds %s that a listing leaves out; `recursive=True` lists their files too", path, some)

    def no_files_message(self, path: str) -> str:
        """Says why there are no files, and what to do."""
        matching = f" that matches {self._file_glob!r}" if self._file_glob else ""
        message = f"{path} holds no file{matching}" if self._is_folder else f"{path} stands for no file{matching}"
        if self._file_count:
            message += f"; there are {self._file_count} others, such as {self._first_file!r}"
            if self._first_file.rpartition("/")[2][:1] in "._":
                message += " (names that begin with . or _ are left out)"
        elif self._folder_count and not self._any_depth:
            message += f"; there are {self._folder_count} folders"
            message += ", and `recursive=True` looks into them" if self._is_folder else ", and ** looks into them"
        return message


def _look_up(paths: list[str], filesystem: object) -> Iterator[tuple[str, Location, str, int]]:
    """Gives each path with its location, the kind of entry there, and its size."""
    for start in range(0, len(paths), BATCH_FILES):
        batch = paths[start : start + BATCH_FILES]
        places = [locate(path, filesystem) for path in batch]
        while batch:
            opened = places[0].filesystem
            count = next((i for i, p in enumerate(places) if p.filesystem is not opened), len(places))
            try:
                infos = _infos_of_paths(opened, [place.path for place in places[:count]])
            except OSError as error:
                raise SourceError(f"{batch[0]} cannot be looked up: {describe(error)}") from error
            for path, place, info in zip(batch, places, infos, strict=False):
                kind = str(info.type.name)
                expanded = expand_braces(path) if kind == "NotFound" else [path]
                if expanded != [path]:
                    yield from _look_up(expanded, filesystem)
                else:
                    yield path, place, kind, _size(info)
            batch, places = batch[count:], places[count:]


def _infos_of_paths(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    if is_local(filesystem):
        return file_infos(filesystem, paths)
    # A single call would send one request after another.
    return [info for (info,) in in_threads(lambda path: file_infos(filesystem, [path]), paths)]


def _entries(filesystem: FileSystem, folders: list[str]) -> Iterator[Iterable[FolderEntry]]:
    """Lists each folder."""
    if filesystem.type_name == "local":
        return map(scan, folders)
    infos = (in_turn if is_local(filesystem) else in_threads)(partial(_infos_of_folder, filesystem), folders)
    return map(_entries_of, infos)


def _infos_of_folder(filesystem: FileSystem, folder: str) -> list[FileInfo]:
    from pyarrow.fs import FileSelector

    return with_retries(lambda: filesystem.get_file_info(FileSelector(folder)), folder)


def _entries_of(infos: list[FileInfo]) -> Iterator[FolderEntry]:
    for info in infos:
        if info.type.name in ("File", "Directory"):
            yield FolderEntry(str(info.base_name), info.type.name == "Directory", _size(info))


def _size(info: FileInfo) -> int:
    size: Any = info.size  # may be None; the stubs say `int`
    return -1 if size is None else int(size)


def _identity(filesystem: FileSystem, folder: str) -> object:
    if filesystem.type_name != "local":
        return None
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _with_slash(path: str) -> str:
    return path if path.endswith("/") or not path else path + "/"


def _split_glob(glob: str) -> tuple[str, str]:
    """Splits a glob into the folder before the first part with a wild card, and the rest."""
    parts = glob.split("/")
    first = next(i for i, part in enumerate(parts) if _WILD.search(part))
    base = "/".join(parts[:first])
    return base or ("/" if first else ""), "/".join(parts[first:])


def _part_regex(glob: str, *, last: bool) -> str:
    """Translates one part of a glob, between slashes, into a regular expression."""
    not_hidden = "(?![._])" if glob[:1] in ("*", "?", "[") else ""
    if glob == "**" and not last:
        return f"(?:{not_hidden}[^/]+/)*"
    regex = not_hidden
    at = 0
    while at < len(glob):
        char = glob[at]
        close = glob.find("]", at + 2) if char == "[" else -1
        if char in "*?":
            regex += "[^/]*" if char == "*" else "[^/]"
        elif close > 0:
            regex += _char_class(glob[at + 1 : close])
            at = close
        else:
            regex += re.escape(char)
        at += 1
    return regex if last else regex + "/"


def _char_class(inside: str) -> str:
    # As in a shell: ! negates, - makes ranges, nothing else is special.
    negated = inside.startswith("!")
    chars = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[negated:])
    regex = f"(?!/)[{'^' if negated else ''}{chars}]"
    try:
        re.compile(regex)
    except re.error:  # such as [z-a]
        return "(?!)"
    return regex
