"""The one door to storage: a path or URL becomes a pyarrow file system and a path in it.

Local files now. URLs of other storage go to pyarrow where it knows them, else to fsspec. pyarrow is imported when a
file is first looked at, and nothing opened here is ever pickled: each process opens its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote

from ..errors import ArgumentTypeError, SourceError, redacted, with_call_site
from .error_messages import HDFS_UNKNOWN, describe
from .retry import retrying

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem, SubTreeFileSystem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
# Options are for pyarrow: on the web, what follows `?` is a part of the name. Elsewhere `?` is a wild card, and so it
# is here where another wild card, or no `name=`, follows.
_WITH_OPTIONS = re.compile(r"(?:s3|hdfs|viewfs|gs|gcs|abfs|abfss)://")
_OPTIONS = re.compile(r"\?\w+=[^?*\[]*$")
_NEAR = ("local", "mock", "py::fsspec+memory", "py::fsspec+('file', 'local')")


class Location(NamedTuple):
    """Where a path leads."""

    filesystem: FileSystem
    path: str
    """The path as the file system wants it."""
    root: str
    """What stands before such a path where a user writes it: "" or, say, "s3://"."""
    options: str = ""
    """What stands after it there: "" or, say, "?region=eu-west-1"."""


def locate(path: str, filesystem: object = None) -> Location:
    """The file system that `path` is on; in `filesystem` where that is given, else a local path or a URL.

    Raises:
        SourceError: nothing here reads URLs of that kind.
    """
    if filesystem is not None:
        return Location(_as_arrow(filesystem), path.rstrip("/") or path, "")
    if path.startswith("file:"):
        return Location(_local(), _path_of(path), "")
    url = _URL.match(path)
    if url is None:
        return Location(_local(), os.path.expanduser(path) or ".", "")
    path, options = split_options(path)
    host, slash, rest = path[url.end() :].partition("/")
    opened, base = _opened(url[0] + host, options, os.getpid())
    inner = (base.rstrip("/") + slash + rest).rstrip("/") or "/"
    root = path.rstrip("/").removesuffix(inner)
    return Location(opened, inner, root, options)


def split_options(path: str) -> tuple[str, str]:
    """A path or URL, and the options that follow it, such as "?endpoint_override=localhost:9000"."""
    if not _WITH_OPTIONS.match(path) or (found := _OPTIONS.search(path)) is None:
        return path, ""
    return path[: found.start()], found[0]


def check_filesystem(value: object) -> None:
    """`filesystem=` must be None, a pyarrow or an fsspec file system."""
    if value is None:
        return
    import fsspec  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow.fs import FileSystem

    if not isinstance(value, (FileSystem, fsspec.AbstractFileSystem)):
        raise ArgumentTypeError(
            with_call_site(
                f"`filesystem` must be a file system of pyarrow or fsspec but got: {value!r}; "
                "without one, a path is local and a URL says where it leads"
            )
        )


def as_paths(paths: object) -> str | list[str]:
    """`paths` as a string or a list of strings.

    Raises:
        ArgumentTypeError: it is something else.
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


def looked_up(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    """What is at each path.

    Raises:
        OSError: that cannot be found out.
    """
    return retrying(lambda: _looked_up(filesystem, paths), paths[0]) if paths else []


def _looked_up(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    infos = filesystem.get_file_info(paths)
    # To libhdfs, all is missing on a server that does not answer; a root never is.
    if filesystem.type_name == "hdfs" and any(info.type.name == "NotFound" for info in infos):
        (root,) = filesystem.get_file_info(["/"])
        if root.type.name == "NotFound":
            raise OSError(HDFS_UNKNOWN, "")
    return infos


def is_near(filesystem: FileSystem) -> bool:
    """Whether a small read costs little: the files are on this machine, or in memory."""
    while filesystem.type_name == "subtree":
        filesystem = cast("SubTreeFileSystem", filesystem).base_fs
    return filesystem.type_name in _NEAR


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
        """pyarrow's; but a file in memory is one object, with one place in it, for all who open it."""

        def open_input_file(self, path: str) -> Any:
            filesystem: Any = self.fs
            if not filesystem.isfile(path):
                raise FileNotFoundError(path)
            file = filesystem.open(path, "rb")
            return pa.BufferReader(file.getvalue()) if isinstance(file, MemoryFile) else pa.PythonFile(file, "r")

    return Handler


def _path_of(url: str) -> str:
    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise SourceError(f"{url!r} names the host {host!r}: a file: URL of this machine has three slashes")
        rest = slash + rest
    return unquote(rest) or "/"


@lru_cache(maxsize=64)
def _opened(url: str, options: str, process: int) -> tuple[FileSystem, str]:
    # One client for each host or bucket, whatever the number of files; a fork makes its own.
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    shown = repr(redacted(url))  # a cause is shown as it is, so where it holds the URL there is none
    try:
        return retrying(lambda: FileSystem.from_uri(url + options), url)
    except pa.ArrowInvalid as error:
        if _WITH_OPTIONS.match(url):
            raise SourceError(f"{shown} cannot be opened: {error}") from None
        # else a kind of URL that pyarrow does not know
    except OSError as error:
        raise SourceError(f"{shown} cannot be reached: {describe(error)}") from error
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    try:
        opened, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise SourceError(f"nothing here reads URLs such as {shown}: {error}") from None
    return _as_arrow(opened), str(path)
