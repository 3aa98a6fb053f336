"""The way to storage: a path or URL becomes a pyarrow file system and a path in it.

pyarrow opens the URLs that it knows, and fsspec the others. pyarrow is imported when a file is first looked at. No file
system that is opened here is pickled: each process opens its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote

from ..errors import ArgumentTypeError, SourceError, redacted, with_call_site
from .error_messages import HDFS_UNKNOWN, describe
from .retry import with_retries

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem, SubTreeFileSystem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
# Only URLs that pyarrow opens have options. In a web address, `?` and what follows belong to the name. In other paths
# `?` is a wild card, and so it is in these URLs if another wild card, or no `name=`, follows.
_WITH_OPTIONS = re.compile(r"(?:s3|hdfs|viewfs|gs|gcs|abfs|abfss)://")
_OPTIONS = re.compile(r"\?\w+=[^?*\[]*$")
# Arrow takes a local path for a URL if it begins like one.
_LIKE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_LOCAL_TYPES = ("local", "mock", "py::fsspec+memory", "py::fsspec+('file', 'local')")


class Location(NamedTuple):
    """A file system and a path in it.

    Attributes:
        filesystem: of pyarrow.
        path: as the file system takes it.
        root: the text before `path` in the path or URL of a user: "" or, say, "s3://".
        options: the text after `path` there: "" or, say, "?region=eu-west-1".
    """

    filesystem: FileSystem
    path: str
    root: str
    options: str = ""


def locate(path: str, filesystem: object = None) -> Location:
    """Finds the file system of `path`: `filesystem` unless that is None, else the one of the local path or URL.

    Raises:
        SourceError: URLs of that kind cannot be read, the file system cannot be reached, or the path is not UTF-8.
    """
    if not path.isascii() and any("\ud800" <= char <= "\udfff" for char in path):  # Python's stand-in for a raw byte
        raise not_utf8_error(path)
    if filesystem is not None:
        return Location(_as_arrow(filesystem), path.rstrip("/") or path, "")
    if path.startswith("file:"):
        return Location(_local(), _path_of_file_url(path), "")
    url = _URL.match(path)
    if url is None:
        local = os.path.expanduser(path) or "."
        return Location(_local(), f"./{local}" if _LIKE_URL.match(local) else local, "")
    path, options = split_options(path)
    host, slash, rest = path[url.end() :].partition("/")
    opened, base = _connect(url[0] + host, options, os.getpid())
    inner = (base.rstrip("/") + slash + rest).rstrip("/") or "/"
    root = path.rstrip("/").removesuffix(inner)
    return Location(opened, inner, root, options)


def not_utf8_error(path: str) -> SourceError:
    """The error of a path whose bytes are no text."""
    shown = path.encode("utf-8", "backslashreplace").decode()
    return SourceError(f"{shown} has a name that is not UTF-8, and a listing holds text; rename it")


def split_options(path: str) -> tuple[str, str]:
    """Splits a URL from its options, such as "?endpoint_override=localhost:9000"; a path has none."""
    if not _WITH_OPTIONS.match(path) or (options := _OPTIONS.search(path)) is None:
        return path, ""
    return path[: options.start()], options[0]


def check_filesystem(value: object) -> None:
    """Raises an `ArgumentTypeError` unless `value` is None, a pyarrow or an fsspec file system."""
    if value is None:
        return
    import fsspec  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow.fs import FileSystem

    if not isinstance(value, (FileSystem, fsspec.AbstractFileSystem)):
        raise ArgumentTypeError(
            with_call_site(
                f"`filesystem` must be a file system of pyarrow or fsspec but got: {value!r}; "
                "without one, `paths` are local paths or URLs"
            )
        )


def as_paths(paths: object) -> str | list[str]:
    """Checks `paths`, and returns it as a string or a list of strings.

    Raises:
        ArgumentTypeError: it is neither a path nor a list of paths.
        SourceError: it is an empty list.
    """
    if isinstance(paths, (str, os.PathLike)):
        return _as_path(paths)
    if not isinstance(paths, Iterable) or isinstance(paths, (bytes, bytearray)):
        raise ArgumentTypeError(with_call_site(f"`paths` must be a path or a list of paths but got: {paths!r}"))
    many = [_as_path(path) for path in paths]
    if not many:
        raise SourceError(with_call_site("`paths` is an empty list: there is nothing to read"))
    return many


def _as_path(path: object) -> str:
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text:
        raise ArgumentTypeError(with_call_site(f"`paths` must hold paths but got: {path!r}"))
    return text


def file_infos(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    """Looks up the type and size of each path.

    Raises:
        OSError: the storage does not answer, or refuses.
    """
    return with_retries(lambda: _file_infos(filesystem, paths), paths[0]) if paths else []


def _file_infos(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    infos = filesystem.get_file_info(paths)
    # If the server does not answer, libhdfs calls every path missing. The root never is.
    if filesystem.type_name == "hdfs" and any(info.type.name == "NotFound" for info in infos):
        (root,) = filesystem.get_file_info(["/"])
        if root.type.name == "NotFound":
            raise OSError(HDFS_UNKNOWN, "")
    return infos


def why_missing(location: Location) -> str:
    """Why there is nothing at a location: in a store with buckets, perhaps no such bucket."""
    if location.filesystem.type_name in ("s3", "gcs"):
        bucket = location.path.partition("/")[0]
        with suppress(OSError):  # one may be allowed to ask for keys, and not for buckets
            if file_infos(location.filesystem, [bucket])[0].type.name == "NotFound":
                return f"there is no bucket {bucket!r}"
    return "no file or folder has that name"


def is_local(filesystem: FileSystem) -> bool:
    """Whether the files are on this machine or in memory, so that a small read costs little."""
    while filesystem.type_name == "subtree":
        filesystem = cast("SubTreeFileSystem", filesystem).base_fs
    return filesystem.type_name in _LOCAL_TYPES


@lru_cache(maxsize=1)
def _local() -> FileSystem:
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem()


def _as_arrow(filesystem: object) -> FileSystem:
    from pyarrow.fs import FileSystem, PyFileSystem

    return filesystem if isinstance(filesystem, FileSystem) else PyFileSystem(_fsspec_handler()(filesystem))


@lru_cache(maxsize=1)
def _fsspec_handler() -> Any:
    import pyarrow as pa
    from fsspec.implementations.memory import MemoryFile  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow.fs import FSSpecHandler

    class Handler(FSSpecHandler):
        """pyarrow's handler; but each open file in memory has a position of its own."""

        def open_input_file(self, path: str) -> Any:
            filesystem: Any = self.fs
            if not filesystem.isfile(path):
                raise FileNotFoundError(path)
            file = filesystem.open(path, "rb")
            return pa.BufferReader(file.getvalue()) if isinstance(file, MemoryFile) else pa.PythonFile(file, "r")

    return Handler


def _path_of_file_url(url: str) -> str:
    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise SourceError(f"{url!r} names the host {host!r}: a file: URL of this machine has three slashes")
        rest = slash + rest
    return unquote(rest) or "/"


@lru_cache(maxsize=64)
def _connect(url: str, options: str, process: int) -> tuple[FileSystem, str]:
    # One client for each host or bucket, however many files there are. A forked process makes its own.
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    shown = repr(redacted(url))  # an error whose text holds the URL must not become a cause, which is shown as it is
    try:
        return with_retries(lambda: FileSystem.from_uri(url + options), url)
    except pa.ArrowInvalid as error:
        if _WITH_OPTIONS.match(url):
            raise SourceError(f"{shown} cannot be opened: {error}") from None
        # pyarrow does not know this kind of URL
    except OSError as error:
        raise SourceError(f"{shown} cannot be reached: {describe(error)}") from error
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    try:
        opened, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise SourceError(f"nothing here reads URLs such as {shown}: {error}") from None
    return _as_arrow(opened), str(path)
