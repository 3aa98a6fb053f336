"""Listings: the files of paths, folders, globs and braces, as Arrow columns."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast

from ..core.arrow import arrow_array, arrow_scalar, numpy_array
from ..core.code import call_code
from ..core.lazy import pa, pc
from ..core.operator import Weights
from ..core.progress_bar import ProgressBar
from ..core.rows import Indices, index_array
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingError,
    SourceError,
    redacted,
    shown_cause,
    shown_path,
)
from . import hub
from .filesystem import (
    Location,
    as_paths,
    check_filesystem,
    describe,
    file_infos,
    is_local,
    locate,
    not_utf8_error,
    says_missing,
    split_options,
    why_missing,
    with_retries,
)
from .tasks import in_threads, in_turn

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

log = logging.getLogger("feedpipe")
_WILD = re.compile(r"[*?\[]")
_END = fnmatch.translate("")[-2:]
"""What `fnmatch` puts behind a pattern; it depends on the version of Python."""
OBJECT_STORES = ("s3", "gcs", "abfs")
_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]+:)"  # or a URL


@dataclass(frozen=True, slots=True)
class Listing:
    """Files in order.

    Attributes:
        paths: as a user would write them.
        sizes: bytes of each file; -1 if the storage does not say.
        digest: of the names below the roots and of the sizes. A copy of the files in another place has the same digest.
        changed: when each file was changed, in milliseconds since 1970; 0 if the storage does not say. None if it was
            not kept.
        root: the folder of all files; see `ListedPath.root`.
        of_paths: the files that each of the user's paths stands for; none if the digest is not of these.
    """

    paths: pa.LargeStringArray
    sizes: pa.Int64Array
    digest: str
    changed: pa.Int64Array | None = None
    root: str = ""
    of_paths: tuple[FilesOfPath, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def files_digest(self) -> str:
        """The digest of the files, the same with and without an index."""
        return self.digest

    def path(self, index: int) -> str:
        """The path of a file."""
        return str(self.paths[index])

    def files_at(self, indices: Indices) -> list[ListedPath]:
        """The files at `indices`."""
        paths, sizes = _values_at(self.paths, indices), _values_at(self.sizes, indices)
        changed = [0] * len(paths) if self.changed is None else _values_at(self.changed, indices)
        return [ListedPath.of(*file, len(self.root)) for file in zip(paths, sizes, changed, strict=True)]

    def part(self, files: range) -> Listing | None:
        """Some neighbouring files, with the digest of a listing of these alone; None if it is not known."""
        if not self.of_paths:
            return None
        paths, sizes = self.paths.slice(files.start, len(files)), self.sizes.slice(files.start, len(files))
        changed = None if self.changed is None else self.changed.slice(files.start, len(files))
        digest = hashlib.blake2b(digest_size=16)
        of_paths: list[FilesOfPath] = []
        begin = 0
        for one in self.of_paths:
            first, begin = begin, begin + one.files
            own = range(max(files.start, first) - files.start, min(files.stop, begin) - files.start)
            if own:
                of_paths.append(one._replace(files=len(own)))
                of_paths[-1].add_to(digest, paths.slice(own.start, len(own)), sizes.slice(own.start, len(own)))
        return Listing(paths, sizes, digest.hexdigest(), changed, self.root, tuple(of_paths))

    def bytes_of_files(self) -> Weights:
        return Weights(numpy_array(self.sizes))

    def folders(self) -> list[str]:
        """The folders of the files."""
        call: Any = pc
        return cast("list[str]", call.replace_substring_regex(self.paths, "/?[^/]*$", "").unique().to_pylist())


class FilesOfPath(NamedTuple):
    """Neighbouring files of a listing: those of one folder or glob, or files that were given one by one.

    Attributes:
        files: their number.
        prefix: the beginning of their paths that is no part of their names; None if that is all but the last part.
        suffix: the end of their paths that is no part of their names.
    """

    files: int
    prefix: str | None
    suffix: str = ""

    def add_to(self, digest: hashlib.blake2b, paths: pa.LargeStringArray, sizes: pa.Int64Array) -> None:
        """Add these files, by their names and sizes, to the digest of a listing."""
        for start in range(0, len(paths), BATCH_FILES):
            texts = cast("list[str]", paths.slice(start, BATCH_FILES).to_pylist())
            if self.prefix is None:
                names = [os.path.basename(split_options(path)[0]) for path in texts]
            else:
                names = [path[len(self.prefix) : len(path) - len(self.suffix)] for path in texts]
            digest.update("\0".join([*names, ""]).encode())
            digest.update(numpy_array(sizes.slice(start, BATCH_FILES)).tobytes())


def _values_at(column: Any, indices: Indices) -> list[Any]:
    if isinstance(indices, range) and indices.step == 1:
        return cast("list[Any]", column.slice(indices.start, len(indices)).to_pylist())
    return cast("list[Any]", column.take(arrow_array(index_array(indices))).to_pylist())


class ListedPath(str):
    """A path with what a listing says of its file, which is not looked up again and reveals a change.

    Attributes:
        size: its bytes; -1 if the storage does not say.
        changed: when it was changed, in milliseconds since 1970; 0 if that is not known.
        root: the length of the part of the path that is the same for all files because of what the user has given: a
            folder, the part of a glob before its first wild card, or what several of those have in common. The names of
            folders in it are no columns, so the spelling of a path does not matter.
    """

    __slots__ = ("changed", "root", "size")
    size: int
    changed: int
    root: int

    @staticmethod
    def of(path: str, size: int, changed: int, root: int = 0) -> ListedPath:
        listed = ListedPath(path)
        listed.size = size
        listed.changed = changed
        listed.root = root
        return listed


@dataclass(frozen=True)
class Selection:
    """The arguments of `list_files`."""

    kind: ClassVar[str] = "list_files"

    paths: str | list[str]
    pattern: str | None = None
    recursive: bool = False
    filesystem: object = None
    manifest: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", as_paths(self.paths))
        if self.pattern is not None and not isinstance(self.pattern, str):
            raise ArgumentTypeError(f"`pattern` must be a string but got: {self.pattern!r}")
        if self.pattern is not None and ("/" in self.pattern or not self.pattern):
            raise ArgumentError(
                f"`pattern` must be a glob for a file's name, such as '*.csv', but got: {self.pattern!r}; "
                "folders go into `paths`"
            )
        check_filesystem(self.filesystem)
        if self.manifest is not None:
            if not isinstance(self.manifest, (str, os.PathLike)):
                raise ArgumentTypeError(f"`manifest` must be a path but got: {self.manifest!r}")
            object.__setattr__(self, "manifest", os.fspath(self.manifest))

    def listing(self, *, times: bool = False) -> Listing:
        """List the files in the order of the paths, those of one folder or glob sorted by name.

        The listing keeps when files were changed if all are on S3, or with `times`.
        """
        batches: list[pa.RecordBatch] = []
        root: str | None = None
        of_paths: list[FilesOfPath] = []
        selected = [self.paths] if isinstance(self.paths, str) else self.paths
        on_s3 = True
        with ProgressBar("list_files", unit=" files", delay=LISTING_SECONDS) as bar:
            single = FileNames(bar)  # paths of files, for which no folder is read
            for path, place, info in _look_up(selected, self.filesystem):
                on_s3 = on_s3 and place.filesystem.type_name == "s3"
                kind = info.type.name
                if kind == "File":
                    root = _common_folder(root, place.root + place.path)
                    single.add(place.root + place.path + place.options, _size(info), _changed(info))
                    continue
                if single.count:
                    batches.append(single.to_batch())
                    of_paths.append(FilesOfPath(single.count, None))
                    single = FileNames(bar)
                if kind == "Directory":
                    glob = ("**/" if self.recursive else "") + (self.pattern or "*")
                    walk = _Walk(place.path, glob, None, folder=True)
                elif _WILD.search(place.path):
                    walk = _Walk(*_split_glob(place.path), self.pattern, folder=False)
                else:
                    if place.filesystem.type_name == "local":
                        check_readable(place.path)
                    raise MissingError(f"{shown_path(path)} is not there: {why_missing(place)}")
                root = _common_folder(root, place.root + _with_slash(walk.base))
                names = FileNames(bar, place.root + _with_slash(walk.base))
                walk.collect(names, place.filesystem, path)
                if not names.count:
                    raise SourceError(walk.no_files_message(path))
                walk.log_folders(path)
                of_paths.append(FilesOfPath(names.count, place.root + _with_slash(walk.base), place.options))
                batches.append(names.to_batch(of_paths[-1]))
            if single.count:
                batches.append(single.to_batch())
                of_paths.append(FilesOfPath(single.count, None))
        batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        paths, sizes, changed = cast("tuple[Any, Any, Any]", batch.columns)
        listing = Listing(paths, sizes, "", changed if times or on_s3 else None, root or "", tuple(of_paths))
        return cast("Listing", listing.part(range(len(listing))))

    def digest(self) -> str:
        """A digest of the arguments, the same for relative and absolute paths to one place."""
        arguments = [[self.absolute(path) for path in self.all_paths()], self.pattern, self.recursive]
        return hashlib.blake2b(json.dumps(arguments).encode(), digest_size=16).hexdigest()

    def call(self) -> str:
        """The call, without secrets, and without the place of the manifest."""
        return redacted(call_code(cast("Any", replace(self, filesystem=None, manifest=None, version=None))))

    def all_paths(self) -> list[str]:
        """`paths` as a list."""
        return [self.paths] if isinstance(self.paths, str) else self.paths

    def absolute(self, path: str) -> str:
        """One of `paths` as an absolute path or a URL."""
        path = path.rstrip("/") or "/"
        if self.filesystem is not None:
            return path
        path = os.path.expanduser(path)
        return path if re.match(_ABSOLUTE, path) else os.path.join(os.getcwd(), path)

    def absolute_listing(self, manifest: str) -> Listing:
        """As `listing`, for `manifest`, which keeps the paths: absolute ones without a password."""
        if any(redacted(name) != name for name in self.all_paths()):
            raise ArgumentError(
                f"`manifest` would keep the password in `paths` in {manifest}; give the password in the environment or "
                "with `filesystem`"
            )
        listing = self.listing(times=True)
        if self.filesystem is not None:
            return listing
        call: Any = pc
        folder, empty = (arrow_scalar(text, pa.large_string()) for text in (os.getcwd() + "/", ""))
        joined = call.binary_join_element_wise(folder, listing.paths, empty)
        paths = call.if_else(call.match_substring_regex(listing.paths, _ABSOLUTE), listing.paths, joined)
        root = listing.root if re.match(_ABSOLUTE, listing.root) else os.getcwd() + "/" + listing.root
        return replace(listing, paths=cast("pa.LargeStringArray", paths), root=root)


_Folder: TypeAlias = tuple[str, tuple[object, ...]]
"""A folder of a walk: its path from the base, with a slash at the end, and the identities from the base to it."""


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
        """Add the files to `names`; `path` is the user's, for errors."""
        try:
            folders: list[_Folder] = [("", (_identity(filesystem, self.base or "."),))]
            while folders:  # all folders of one depth, then all of the next
                paths = [_with_slash(self.base) + prefix or "." for prefix, _ in folders]
                below = self._any_depth and len(folders[0][1]) > len(self._levels)
                listings = _entries(filesystem, paths, recursive=below)
                folders = [
                    inner
                    for folder, entries in zip(folders, listings, strict=True)
                    for inner in self._collect_folder(names, filesystem, folder, entries)
                ]
        except OSError as error:
            if isinstance(error, SourceError):
                raise
            name = shown_path(path)
            if says_missing(error):
                raise MissingError(
                    f"{name} is not there, or a part of it vanished while it was listed"
                ) from shown_cause(error, path)
            raise SourceError(f"{name} cannot be listed: {describe(error)}") from shown_cause(error, path)

    def _collect_folder(
        self, names: FileNames, filesystem: FileSystem, folder: _Folder, entries: Iterable[FolderEntry]
    ) -> list[_Folder]:
        """Add the files of a folder, and return the folders in it that must be listed too."""
        prefix, above = folder
        inside: list[str] = []
        for name, is_folder, size, changed in entries:
            if is_folder:
                self._folder_count += name[:1] not in "._"
                if self._descends(name, len(above) - 1):
                    inside.append(name)
                continue
            self._file_count += 1
            self._first_file = self._first_file or prefix + name
            if self._path.fullmatch(prefix + name) and (
                self._name is None or self._name.fullmatch(name.rpartition("/")[2])
            ):
                if size is None:
                    check_readable(f"{_with_slash(self.base)}{prefix}{name}")
                    continue  # it has vanished
                names.add(prefix + name, size, changed)
        names.show()
        inner = [(name, _identity(filesystem, f"{_with_slash(self.base)}{prefix}{name}")) for name in inside]
        # A link to a folder above would never end.
        return [(f"{prefix}{name}/", (*above, it)) for name, it in inner if it is None or it not in above]

    def _descends(self, name: str, depth: int) -> bool:
        if depth < len(self._levels):
            return bool(self._levels[depth].fullmatch(name))
        return self._any_depth and (self._hidden or name[:1] not in "._")

    def log_folders(self, path: str) -> None:
        """Warn about folders beside the files: their files are left out."""
        if self._is_folder and self._folder_count and not self._any_depth:
            some = "1 folder" if self._folder_count == 1 else f"{self._folder_count} folders"
            message = "%s holds %s that a listing leaves out; `recursive=True` lists their files too"
            log.warning(message, shown_path(path), some)

    def no_files_message(self, path: str) -> str:
        """The error of a path without files: the reason and the repair."""
        matching = f" that matches {self._file_glob!r}" if self._file_glob else ""
        message = f"{shown_path(path)} {'holds' if self._is_folder else 'matches'} no file{matching}"
        if self._file_count:
            message += f"; there are {self._file_count} others, such as {self._first_file!r}"
            if self._first_file.rpartition("/")[2][:1] in "._":
                message += " (names that begin with . or _ are left out)"
        elif self._folder_count and not self._any_depth:
            message += f"; there are {self._folder_count} folders"
            message += ", and `recursive=True` looks into them" if self._is_folder else ", and ** looks into them"
        return message


def _look_up(paths: list[str], filesystem: object) -> Iterator[tuple[str, Location, FileInfo]]:
    """Look up each path: its location, and what is there."""
    if filesystem is None:
        try:
            paths = with_retries(partial(hub.with_commits, paths), paths[0])
        except OSError as error:
            raise SourceError(f"{shown_path(paths[0])} cannot be looked up: {describe(error)}") from shown_cause(error)
    for start in range(0, len(paths), BATCH_FILES):
        batch = paths[start : start + BATCH_FILES]
        places = [locate(path, filesystem) for path in batch]
        while batch:
            opened = places[0].filesystem
            count = next((i for i, p in enumerate(places) if p.filesystem is not opened), len(places))
            try:
                infos = _infos_of_paths(opened, [place.path for place in places[:count]])
            except OSError as error:
                raise SourceError(f"{shown_path(batch[0])} cannot be looked up: {describe(error)}") from shown_cause(
                    error
                )
            for path, place, info in zip(batch, places, infos, strict=False):
                expanded = expand_braces(path) if info.type.name == "NotFound" else [path]
                if expanded != [path]:
                    yield from _look_up(expanded, filesystem)
                else:
                    yield path, place, info
            batch, places = batch[count:], places[count:]


def _infos_of_paths(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    if is_local(filesystem):
        return file_infos(filesystem, paths)
    # A single call would send one request after another.
    return [info for (info,) in in_threads(lambda path: file_infos(filesystem, [path]), paths)]


def _entries(filesystem: FileSystem, folders: list[str], *, recursive: bool) -> Iterator[Iterable[FolderEntry]]:
    """List each folder; if `recursive`, an object store and the hub also give the files below, a thousand at a time."""
    if filesystem.type_name == "local":
        return map(scan, folders)
    recursive = recursive and filesystem.type_name in (*OBJECT_STORES, hub.TYPE_NAME)
    infos = (in_turn if is_local(filesystem) else in_threads)(partial(_infos_below, filesystem, recursive), folders)
    return map(partial(_entries_of, recursive), folders, infos)


def _infos_below(filesystem: FileSystem, recursive: bool, folder: str) -> list[FileInfo]:
    from pyarrow.fs import FileSelector

    return with_retries(lambda: filesystem.get_file_info(FileSelector(folder, recursive=recursive)), folder)


def _entries_of(recursive: bool, folder: str, infos: list[FileInfo]) -> Iterator[FolderEntry]:
    """The entries of a folder; if `recursive`, the files below by their paths from there."""
    start = len(_with_slash(folder))
    for info in infos:
        kind = info.type.name
        if kind == "File" or (kind == "Directory" and not recursive):
            name = str(info.path)[start:] if recursive else str(info.base_name)
            yield FolderEntry(name, kind == "Directory", _size(info), _changed(info))


def _size(info: FileInfo) -> int:
    size: Any = info.size  # may be None; the stubs say `int`
    return -1 if size is None else int(size)


def _changed(info: FileInfo) -> int:
    """When a file was changed, in milliseconds since 1970; 0 if the storage does not say."""
    time: Any = info.mtime_ns
    return 0 if time is None else int(time) // 10**6


def _identity(filesystem: FileSystem, folder: str) -> object:
    if filesystem.type_name != "local":
        return None
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _with_slash(path: str) -> str:
    return path if path.endswith("/") or not path else path + "/"


def _common_folder(root: str | None, path: str) -> str:
    """The folder that holds `path`, which ends with a slash if it is one, and all that `root` holds."""
    common = path if root is None else common_prefix(root, path)
    return common[: common.rfind("/") + 1]


def common_prefix(one: str, other: str) -> str:
    """The beginning that two texts have in common; if they are the least and the greatest of several, that of all."""
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))]


def _split_glob(glob: str) -> tuple[str, str]:
    """Split a glob into the folder before the first part with a wild card, and the rest."""
    parts = glob.split("/")
    first = next(i for i, part in enumerate(parts) if _WILD.search(part))
    base = "/".join(parts[:first])
    return base or ("/" if first else ""), "/".join(parts[first:])


def _part_regex(glob: str, *, last: bool) -> str:
    """Translate one part of a glob, between slashes, into a regular expression."""
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
            regex += "(?!/)" + fnmatch.translate(glob[at : close + 1]).removesuffix(_END)
            at = close
        else:
            regex += re.escape(char)
        at += 1
    return regex if last else regex + "/"


# The names and sizes of many files, in little memory


LISTING_SECONDS = 3.0
"""A listing that takes longer shows how many files it has found: the number after each folder or batch."""
BATCH_FILES = 2**14
"""The files of a batch, whose names are Python strings. A digest takes all names of a batch, then their sizes."""


class FileNames:
    """Names and sizes: Arrow arrays, but for the last few."""

    def __init__(self, bar: ProgressBar, folder: str = "") -> None:
        self._bar = bar
        self._folder = folder  # for errors
        self._parts: list[pa.RecordBatch] = []
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._changed: list[int] = []
        self.count = self._shown = 0

    def add(self, name: str, size: int, changed: int) -> None:
        self._names.append(name)
        self._sizes.append(size)
        self._changed.append(changed)
        self.count += 1
        if len(self._names) == BATCH_FILES:
            self._flush()

    def show(self) -> None:
        """Show their number."""
        self._bar.update(self.count - self._shown)
        self._shown = self.count

    def _flush(self) -> None:
        try:
            names = arrow_array(self._names, pa.large_string())
        except UnicodeEncodeError as error:
            raise not_utf8_error(self._folder + str(error.object)) from None
        numbers = [arrow_array(column, pa.int64()) for column in (self._sizes, self._changed)]
        self._parts.append(pa.RecordBatch.from_arrays([names, *numbers], ["name", "size", "changed"]))
        self.show()
        self._names, self._sizes, self._changed = [], [], []

    def to_batch(self, one: FilesOfPath | None = None) -> pa.RecordBatch:
        """All columns: paths as they came, or names of the files of a path, sorted, as paths."""
        self._flush()
        table = pa.Table.from_batches(self._parts).combine_chunks()
        if one is not None:
            table = table.take(pc.sort_indices(table["name"]))
        paths: Any = table["name"]
        if one is not None and (one.prefix or one.suffix):
            parts = [arrow_scalar(part or "", pa.large_string()) for part in (one.prefix, one.suffix, "")]
            join: Any = pc.binary_join_element_wise
            paths = join(parts[0], paths, *parts[1:])
        columns = [pa.concat_arrays(column.chunks) for column in (paths, table["size"], table["changed"])]
        return pa.RecordBatch.from_arrays(columns, ["name", "size", "changed"])


# Entries of local folders


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FolderEntry(NamedTuple):
    """An entry of a folder.

    Attributes:
        name: in its folder, or its path from there.
        is_folder: whether it is a folder, or a link to one.
        size: in bytes, or -1 if the storage does not say; None if it is neither a file nor a folder.
        changed: when it was changed, in milliseconds since 1970; 0 if the storage does not say.
    """

    name: str
    is_folder: bool
    size: int | None
    changed: int = 0


def scan(folder: str) -> Iterator[FolderEntry]:
    """The entries of a local folder, one at a time: pyarrow would hold an object for each of a million files."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    yield FolderEntry(entry.name, True, None)
                else:
                    status = entry.stat() if entry.is_file() else None
                    size, changed = (None, 0) if status is None else (status.st_size, status.st_mtime_ns // 10**6)
                    yield FolderEntry(entry.name, False, size, changed)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                yield FolderEntry(entry.name, False, None)


def check_readable(path: str) -> None:
    """Raise an error that names the kind of a local entry that is neither a file nor a folder.

    Opening a named pipe would wait for a writer, and a device may never end. If there is no entry of that name, or it
    may not be looked at, nothing happens.

    Raises:
        MissingError: it is a link to nothing.
        SourceError: it is a link to itself, a named pipe, a socket or a device.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SourceError(f"{shown_path(path)} is a link that leads back to itself; remove it") from error
        if os.path.islink(path) and isinstance(error, FileNotFoundError):
            raise MissingError(f"{shown_path(path)} is a link to a file that is not there") from error
        return
    if kind is not None:
        raise SourceError(
            f"{shown_path(path)} is {kind}, and only files and folders are read; write its bytes to a file"
        )


# Braces in paths


MAX_PATHS = 10**7
"""The most paths of one pattern."""
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def expand_braces(path: str) -> list[str]:
    """Expand the braces of `path`; without a range or options in braces, return `path` alone.

    `{000..003}` counts, with as many digits as its ends have; `{0..9..3}` counts by threes; `{a,b}` gives each part.
    Groups may follow each other, and a part may have groups.

    Raises:
        ArgumentError: there are too many paths.
    """
    group = _first_group(path)
    if group is None:
        return [path]
    before, inner, options, after = group
    parts = _counted(inner, path) or [part for option in options for part in expand_braces(option)]
    rest = expand_braces(after)
    _check_count(len(parts) * len(rest), path)
    return [before + part + end for part, end in product(parts, rest)]


def _counted(inner: str, path: str) -> list[str]:
    """The numbers of `a..b` or `a..b..step`, as text."""
    match = _RANGE.fullmatch(inner)
    if match is None:
        return []
    first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
    padded = any(re.match(r"-?0\d", end) for end in (match[1], match[2]))
    width = max(len(match[1]), len(match[2])) if padded else 0
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    _check_count(len(numbers), path)
    return [f"{number:0{width}d}" for number in numbers]


def _check_count(count: int, path: str) -> None:
    if count > MAX_PATHS:
        raise ArgumentError(f"the braces of {path!r} make {count} paths, but {MAX_PATHS} are allowed; use a glob")


def _first_group(path: str) -> tuple[str, str, list[str], str] | None:
    """The first group in braces that is a range or has several options: what is before, in and after it."""
    for start in (match.start() for match in re.finditer("{", path)):
        options, depth = [""], 0
        for at in range(start, len(path)):
            depth += (path[at] == "{") - (path[at] == "}")
            if depth == 0:
                inner = path[start + 1 : at]
                if _RANGE.fullmatch(inner) or len(options) > 1:
                    return path[:start], inner, options, path[at + 1 :]
                break
            if path[at] == "," and depth == 1:  # in no further braces
                options.append("")
            elif at > start:
                options[-1] += path[at]
    return None
