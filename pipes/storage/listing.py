"""Listings: the files that paths, folders and globs stand for, held as Arrow columns."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast

from ..errors import ArgumentError, ArgumentTypeError, MissingError, SourceError, with_call_site
from .error_messages import describe, says_missing
from .filesystem import Location, as_paths, check_filesystem, is_near, locate, looked_up, split_options
from .retry import retrying
from .threads import in_threads

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileInfo, FileSystem

_WILD = re.compile(r"[*?\[]")
BATCH = 2**14
"""Names that stand as Python strings at a time; a digest takes so many, and then their sizes."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Files in order.

    Attributes:
        paths: as a user would write them.
        sizes: bytes of each file; -1 where storage does not say.
        digest: of the names below the roots and of the sizes: the same wherever the same files lie.
    """

    paths: pa.LargeStringArray
    sizes: pa.Int64Array
    digest: str

    def __len__(self) -> int:
        return len(self.paths)


class ListedPath(str):
    """A path that knows how many bytes its file took when it was listed: nobody asks again, and a change is noticed."""

    __slots__ = ("size",)
    size: int

    @staticmethod
    def of(path: str, size: int) -> ListedPath:
        made = ListedPath(path)
        made.size = size
        return made


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
        """The files that the paths stand for, in the order of the paths; those of one folder or glob sorted by name.

        They are listed, whether or not there is a manifest.

        Raises:
            SourceError: a path is missing, cannot be listed, or stands for no file.
        """
        import pyarrow as pa

        found: list[pa.RecordBatch] = []
        digest = hashlib.blake2b(digest_size=16)
        single = _Names()  # files named outright: no folder is read for them
        given = [self.paths] if isinstance(self.paths, str) else self.paths
        for path, place, kind, size in _looked_up(given, self.filesystem):
            if kind == "File":
                single.add(place.root + place.path + place.options, size)
                continue
            if single.count:
                found.append(single.taken(digest, prefix=None))
                single = _Names()
            if kind == "Directory":
                glob = ("**/" if self.recursive else "") + (self.pattern or "*")
                walk = _Walk(place.path, glob, None, folder=True)
            elif _WILD.search(place.path):
                walk = _Walk(*_split(place.path), self.pattern, folder=False)
            else:
                raise MissingError(f"{path} is not there: no file or folder has that name")
            names = _Names()
            walk.into(names, place.filesystem, path)
            if not names.count:
                raise SourceError(walk.nothing(path))
            found.append(names.taken(digest, prefix=place.root + _folder(walk.base), suffix=place.options))
        if single.count:
            found.append(single.taken(digest, prefix=None))
        whole = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        paths, sizes = cast("tuple[Any, Any]", whole.columns)
        return Listing(paths, sizes, digest.hexdigest())


def add_to_digest(digest: hashlib.blake2b, names: list[str], sizes: pa.Int64Array) -> None:
    """Adds files, by their names below the root, to what becomes `Listing.digest`."""
    digest.update("\0".join([*names, ""]).encode())
    digest.update(sizes.to_numpy().tobytes())


class _Names:
    """Names and sizes, kept as Arrow arrays but for the last few."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch] = []
        self._names: list[str] = []
        self._sizes: list[int] = []
        self.count = 0

    def add(self, name: str, size: int) -> None:
        self._names.append(name)
        self._sizes.append(size)
        self.count += 1
        if len(self._names) == BATCH:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        try:
            names = pa.array(self._names, pa.large_string())
        except UnicodeEncodeError as error:
            raise SourceError(f"a file's name is not UTF-8: {error.object!r}; rename it") from None
        self._parts.append(pa.RecordBatch.from_arrays([names, pa.array(self._sizes, pa.int64())], ["name", "size"]))
        self._names, self._sizes = [], []

    def taken(self, digest: hashlib.blake2b, *, prefix: str | None, suffix: str = "") -> pa.RecordBatch:
        """Paths and sizes: without a prefix in the order they came; with one, that and the names, which are sorted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._flush()
        table = pa.Table.from_batches(self._parts).combine_chunks()
        if prefix is not None:
            table = table.take(pc.sort_indices(table["name"]))
        for batch in table.to_batches(max_chunksize=BATCH):
            names = cast("list[str]", batch.column("name").to_pylist())
            relative = names if prefix is not None else [os.path.basename(split_options(name)[0]) for name in names]
            add_to_digest(digest, relative, cast("Any", batch.column("size")))
        paths: Any = table["name"]
        if prefix or suffix:
            parts = [pa.scalar(part, pa.large_string()) for part in (prefix or "", suffix, "")]
            join: Any = pc.binary_join_element_wise
            paths = join(parts[0], paths, *parts[1:])
        columns = [pa.concat_arrays(paths.chunks), pa.concat_arrays(table["size"].chunks)]
        return pa.RecordBatch.from_arrays(columns, ["name", "size"])


_Entry: TypeAlias = "tuple[str, bool, int | None]"
"""Name, whether it is a folder, and size; None is the size of what a broken link names."""


class _Folder(NamedTuple):
    """A folder of a walk: its path from the base, with a slash behind, and the identities of it and those above."""

    prefix: str
    above: tuple[object, ...]


class _Walk:
    """The files below `base` whose path from there matches a glob, and whose name matches `pattern`.

    A name that begins with `.` or `_` is left out unless the glob's part for it begins so: folders hold markers, caches
    and half-written files under such names.
    """

    def __init__(self, base: str, glob: str, pattern: str | None, *, folder: bool) -> None:
        self.base = base
        parts = glob.split("/")
        if parts[-1] == "**":
            parts.append("*")
        self._folder = folder
        self._wanted = pattern or (parts[-1] if folder and parts[-1] != "*" else None)
        self._path = re.compile("".join(_part(part, last=i == len(parts) - 1) for i, part in enumerate(parts)))
        self._name = re.compile(_part(pattern, last=True)) if pattern else None
        depth = parts.index("**") if "**" in parts else len(parts) - 1
        self._levels = [re.compile(_part(part, last=True)) for part in parts[:depth]]
        self._any_depth = "**" in parts
        self._hidden = any(part[:1] in "._" for part in parts if part)
        self._files = 0
        self._folders = 0
        self._seen = ""

    def into(self, names: _Names, filesystem: FileSystem, path: str) -> None:
        try:
            folders = [_Folder("", (_identity(filesystem, self.base or "."),))]
            while folders:  # all of one depth, and then those in them
                entries = _entries(filesystem, [_folder(self.base) + folder.prefix or "." for folder in folders])
                folders = [
                    inner
                    for folder, found in zip(folders, entries, strict=True)
                    for inner in self._below(names, filesystem, folder, found)
                ]
        except OSError as error:
            if isinstance(error, SourceError):
                raise
            if says_missing(error):
                raise MissingError(f"{path} is not there, or a part of it vanished while it was listed") from error
            raise SourceError(f"{path} cannot be listed: {describe(error)}") from error

    def _below(self, names: _Names, filesystem: FileSystem, folder: _Folder, found: Iterable[_Entry]) -> list[_Folder]:
        """Takes the files of a folder; the folders in it that are to be looked into."""
        prefix, above = folder
        inside: list[str] = []
        for name, is_folder, size in found:
            if is_folder:
                self._folders += 1
                if self._descends(name, len(above) - 1):
                    inside.append(name)
                continue
            self._files += 1
            self._seen = self._seen or prefix + name
            if self._path.fullmatch(prefix + name) and (self._name is None or self._name.fullmatch(name)):
                if size is None:
                    raise MissingError(f"{_folder(self.base)}{prefix}{name} is a link to a file that is not there")
                names.add(prefix + name, size)
        inner = [(name, _identity(filesystem, f"{_folder(self.base)}{prefix}{name}")) for name in inside]
        # A link to a folder above would be walked for ever.
        return [_Folder(f"{prefix}{name}/", (*above, it)) for name, it in inner if it is None or it not in above]

    def _descends(self, name: str, depth: int) -> bool:
        if depth < len(self._levels):
            return bool(self._levels[depth].fullmatch(name))
        return self._any_depth and (self._hidden or name[:1] not in "._")

    def nothing(self, path: str) -> str:
        """Why no file was found, and what to do."""
        wanted = f" that matches {self._wanted!r}" if self._wanted else ""
        said = f"{path} holds no file{wanted}" if self._folder else f"{path} stands for no file{wanted}"
        if self._files:
            said += f"; there are {self._files} others, such as {self._seen!r}"
            if self._seen.rpartition("/")[2][:1] in "._":
                said += " (names that begin with . or _ are left out)"
        elif self._folders and not self._any_depth:
            said += f"; there are {self._folders} folders"
            said += ", and `recursive=True` looks into them" if self._folder else ", and ** looks into them"
        return said


def _looked_up(paths: list[str], filesystem: object) -> Iterator[tuple[str, Location, str, int]]:
    """Each path, where it leads, what is there, and its size."""
    for start in range(0, len(paths), BATCH):
        some = paths[start : start + BATCH]
        places = [locate(path, filesystem) for path in some]
        while some:
            opened = places[0].filesystem
            count = next((i for i, p in enumerate(places) if p.filesystem is not opened), len(places))
            try:
                infos = _each_looked_up(opened, [place.path for place in places[:count]])
            except OSError as error:
                raise SourceError(f"{some[0]} cannot be looked up: {describe(error)}") from error
            for path, place, info in zip(some, places, infos, strict=False):
                yield path, place, str(info.type.name), _size(info)
            some, places = some[count:], places[count:]


def _each_looked_up(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    if is_near(filesystem):
        return looked_up(filesystem, paths)
    # One call would ask for one after another.
    return [info for (info,) in in_threads(lambda path: looked_up(filesystem, [path]), paths)]


def _entries(filesystem: FileSystem, folders: list[str]) -> Iterator[Iterable[_Entry]]:
    """What is in each folder."""
    if filesystem.type_name == "local":
        return map(_scanned, folders)
    some_at_a_time = map if is_near(filesystem) else in_threads
    return map(_told, some_at_a_time(partial(_infos, filesystem), folders))


def _scanned(folder: str) -> Iterator[_Entry]:
    # One by one: pyarrow would hold an object for each of a million files at once.
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield entry.name, True, None
            elif entry.is_file():
                yield entry.name, False, entry.stat().st_size
            elif entry.is_symlink() and not os.path.exists(entry.path):
                yield entry.name, False, None


def _infos(filesystem: FileSystem, folder: str) -> list[FileInfo]:
    from pyarrow.fs import FileSelector

    return retrying(lambda: filesystem.get_file_info(FileSelector(folder)), folder)


def _told(infos: list[FileInfo]) -> Iterator[_Entry]:
    for info in infos:
        if info.type.name in ("File", "Directory"):
            yield info.base_name, info.type.name == "Directory", _size(info)


def _size(info: FileInfo) -> int:
    size: Any = info.size  # None, where the stubs say `int`
    return -1 if size is None else int(size)


def _identity(filesystem: FileSystem, folder: str) -> object:
    if filesystem.type_name != "local":
        return None
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _folder(path: str) -> str:
    return path if path.endswith("/") or not path else path + "/"


def _split(glob: str) -> tuple[str, str]:
    """The folder before the first part with a wild card, and the rest."""
    parts = glob.split("/")
    first = next(i for i, part in enumerate(parts) if _WILD.search(part))
    base = "/".join(parts[:first])
    return base or ("/" if first else ""), "/".join(parts[first:])


def _part(glob: str, *, last: bool) -> str:
    """One part of a glob, between slashes, as a regular expression."""
    shown = "(?![._])" if glob[:1] in ("*", "?", "[") else ""
    if glob == "**" and not last:
        return f"(?:{shown}[^/]+/)*"
    made = shown
    at = 0
    while at < len(glob):
        char = glob[at]
        close = glob.find("]", at + 2) if char == "[" else -1
        if char in "*?":
            made += "[^/]*" if char == "*" else "[^/]"
        elif close > 0:
            made += _char_class(glob[at + 1 : close])
            at = close
        else:
            made += re.escape(char)
        at += 1
    return made if last else made + "/"


def _char_class(inside: str) -> str:
    # As in a shell: ! negates, - makes ranges, nothing else is special.
    negated = inside.startswith("!")
    chars = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[negated:])
    made = f"(?!/)[{'^' if negated else ''}{chars}]"
    try:
        re.compile(made)
    except re.error:  # such as [z-a]
        return "(?!)"
    return made
