"""File systems: those of paths and URLs, the meaning of their errors, and retries.

pyarrow opens the URLs that it knows, and fsspec the others. pyarrow is imported when a file is first looked at. No file
system that is opened here is pickled: each process opens its own.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from io import IOBase
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import unquote

from ..core.lazy import pa
from ..errors import (
    ArgumentTypeError,
    SourceError,
    call_site,
    redacted_url,
    shown,
    shown_cause,
    shown_path,
)
from . import hub

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo, FileSystem, SubTreeFileSystem

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")

# Only URLs that pyarrow opens have options. In a web address, `?` and what follows belong to the name. In other paths
# `?` is a wild card, and so it is in these URLs if another wild card, or no `name=`, follows.
_WITH_OPTIONS = re.compile(r"(?:s3|hdfs|viewfs|gs|gcs|abfs|abfss)://")
_OPTIONS = re.compile(r"\?\w+=[^?*\[]*$")
_IN_ARCHIVE = re.compile(r"zip://.*?(?=::)", re.DOTALL)  # fsspec's notation: the file inside, and then its archive

# Arrow takes a local path for a URL if it begins like one.
_LIKE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
ARCHIVE_TYPE = "py::fsspec+zip"
_LOCAL_TYPES = ("local", "mock", "py::fsspec+memory", "py::fsspec+('file', 'local')", ARCHIVE_TYPE)


class Location(NamedTuple):
    """A file system and a path in it.

    Attributes:
        filesystem: of pyarrow.
        path: as the file system takes it.
        root: the text before `path` in the path or URL of a user: "" or, say, "s3://".
        options: the text after `path` there: "" or, say, "?region=eu-west-1" or "::archive.zip".
    """

    filesystem: FileSystem
    path: str
    root: str
    options: str = ""


def locate(path: str, filesystem: object = None) -> Location:
    """Find the file system of `path`: `filesystem` unless that is None, else the one of the local path or URL.

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
    if options.startswith("::"):
        opened, _ = _connect(url[0], options, os.getpid())
        return Location(opened, path[len("zip:/") :].rstrip("/") or "/", "zip:/", options)
    host, slash, rest = path[url.end() :].partition("/")
    opened, base = _connect(url[0] + host, options, os.getpid())
    inner = (base.rstrip("/") + slash + rest).rstrip("/") or "/"
    root = path.rstrip("/").removesuffix(inner)
    return Location(opened, inner, root, options)


def not_utf8_error(path: str) -> SourceError:
    """The error of a path whose bytes are no text."""
    return SourceError(f"{shown_path(path)} has a name that is not UTF-8, and a listing holds text; rename it")


def split_options(path: str) -> tuple[str, str]:
    """Split a URL from its options, such as "?endpoint_override=localhost:9000", or its archive; a path has none."""
    if inside := _IN_ARCHIVE.match(path):
        return inside[0], path[inside.end() :]
    if not _WITH_OPTIONS.match(path) or (options := _OPTIONS.search(path)) is None:
        return path, ""
    return path[: options.start()], options[0]


def check_filesystem(value: object) -> None:
    """Raise an `ArgumentTypeError` unless `value` is None, a pyarrow or an fsspec file system."""
    if value is None:
        return
    import fsspec  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow.fs import FileSystem

    if not isinstance(value, (FileSystem, fsspec.AbstractFileSystem)):
        raise ArgumentTypeError(
            f"`filesystem` must be a file system of pyarrow or fsspec but got: {value!r}; "
            "without one, `paths` are local paths or URLs"
        )


def as_paths(paths: object) -> str | list[str]:
    """Check `paths`, and return it as a string or a list of strings."""
    if isinstance(paths, (str, os.PathLike)):
        return _as_path(paths)
    if not isinstance(paths, Iterable) or isinstance(paths, (bytes, bytearray)):
        raise ArgumentTypeError(f"`paths` must be a path or a list of paths but got: {paths!r}")
    many = [_as_path(path) for path in paths]
    if not many:
        raise SourceError("`paths` is an empty list: there is nothing to read", at=call_site())
    return many


def _as_path(path: object) -> str:
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text:
        raise ArgumentTypeError(f"`paths` must hold paths but got: {path!r}")
    return text


def file_infos(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    """Look up the type and size of each path."""
    return with_retries(lambda: _file_infos(filesystem, paths), paths[0]) if paths else []


def _file_infos(filesystem: FileSystem, paths: list[str]) -> list[FileInfo]:
    infos = filesystem.get_file_info(paths)
    # If the server does not answer, libhdfs calls every path missing. The root never is.
    if filesystem.type_name == "hdfs" and any(info.type.name == "NotFound" for info in infos):
        (root,) = filesystem.get_file_info(["/"])
        if root.type.name == "NotFound":
            raise OSError(HDFS_UNKNOWN, "")
    return infos


def open_input(location: Location, size: int | None) -> NativeFile:
    """Open a file for reading. On the hub, one that was listed, and cannot change, takes no further look-up."""
    filesystem: Any = location.filesystem
    if size is not None and filesystem.type_name == hub.TYPE_NAME and hub.is_fixed(location.path):
        return cast("NativeFile", hub.HubFile(location.path, size, filesystem.handler.fs))
    return cast("NativeFile", filesystem.open_input_file(location.path))


def why_missing(location: Location) -> str:
    """The reason why a location is empty. In a store with buckets, the bucket may not exist."""
    if location.filesystem.type_name in ("s3", "gcs"):
        bucket = location.path.partition("/")[0]
        with suppress(OSError):  # one may be allowed to ask for keys, and not for buckets
            if file_infos(location.filesystem, [bucket])[0].type.name == "NotFound":
                return f"there is no bucket {bucket!r}"
    return "no file or folder has that name"


def is_local(filesystem: FileSystem) -> bool:
    """Return True if the files are on this machine or in memory, where small reads are cheap."""
    while filesystem.type_name == "subtree":
        filesystem = cast("SubTreeFileSystem", filesystem).base_fs
    return filesystem.type_name in _LOCAL_TYPES


@lru_cache(maxsize=1)
def _local() -> FileSystem:
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem()


def _as_arrow(filesystem: object) -> FileSystem:
    from pyarrow.fs import FileSystem, PyFileSystem

    return (
        filesystem if isinstance(filesystem, FileSystem) else PyFileSystem(_fsspec_handler()(_Translated(filesystem)))
    )


class _Translated:
    """A file system of fsspec, or one of its files; each of its errors is an `OSError`."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        return partial(_translated_call, value) if callable(value) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Translated) and bool(self._target == other._target)

    def __hash__(self) -> int:
        return hash(self._target)


def _translated_call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        result = function(*args, **options)
    except FileNotFoundError as error:
        cause = error.__cause__  # HTTP's file system calls a file missing, too, if a server refuses it or is away
        if cause is None or not (is_transient(cause) or _status(cause) not in _MISSING_STATUSES):
            raise
        raise _as_os_error(cause) from shown_cause(cause)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise _as_os_error(error) from shown_cause(error)
    return _Translated(result) if isinstance(result, IOBase) else result


def _as_os_error(error: BaseException) -> OSError:
    translated: Any = (ConnectionError if is_transient(error) else OSError)(describe(error))
    translated.status = _status(error)
    translated.headers = getattr(getattr(error, "response", error), "headers", None)
    return cast("OSError", translated)


@lru_cache(maxsize=1)
def _fsspec_handler() -> Any:
    from fsspec.implementations.memory import MemoryFile  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
    from pyarrow.fs import FSSpecHandler

    class Handler(FSSpecHandler):
        """pyarrow's handler; but each open file in memory has a position of its own."""

        def open_input_file(self, path: str) -> Any:
            filesystem: Any = self.fs
            if filesystem.info(path)["type"] != "file":  # `isfile` is false for each error
                raise FileNotFoundError(path)
            file = filesystem.open(path, "rb")
            is_memory = isinstance(file._target, MemoryFile)
            return pa.BufferReader(file.getvalue()) if is_memory else pa.PythonFile(file, "r")

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
    from pyarrow.fs import FileSystem

    name = repr(shown_path(url))
    try:
        if not url.startswith("hf:"):  # pyarrow would take fsspec's file system, and its own handler
            return with_retries(lambda: FileSystem.from_uri(url + options), url)
    except pa.ArrowInvalid as error:
        if _WITH_OPTIONS.match(url):
            raise SourceError(f"{name} cannot be opened: {error}") from None
        # pyarrow does not know this kind of URL
    except OSError as error:
        raise SourceError(f"{name} cannot be reached: {describe(error)}") from shown_cause(error, url)
    from zipfile import BadZipFile

    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    try:
        opened, path = fsspec.core.url_to_fs(url + options)
    except (ValueError, ImportError) as error:
        repair = "; `pip install 'feedpipe[hub]'` does" if url.startswith("hf:") else ""
        raise SourceError(f"nothing here reads URLs such as {name}: {error}{repair}") from None
    except (OSError, BadZipFile) as error:
        if not url.startswith("zip://"):
            raise
        if not options:
            raise SourceError(f"{name} must name its archive, as in 'zip://file.csv::archive.zip'") from None
        raise SourceError(f"{shown_path(options[2:])!r} cannot be opened as an archive: {describe(error)}") from error
    return _as_arrow(opened), str(path)


_SECRET = re.compile("secret|token|passw|key|credential|session", re.IGNORECASE)
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST")


def filesystem_identity(filesystem: object) -> str:
    """A text that is the same for file systems with the same files: their kind, server and options, without secrets.

    It is the same in all processes, if the options are plain values.
    """
    from pyarrow.fs import PyFileSystem

    parts: list[object] = [[os.environ.get(name) for name in _ENDPOINTS]]
    if isinstance(filesystem, PyFileSystem):
        handler: Any = filesystem.handler
        inner = getattr(handler, "fs", None)
        inner = inner._target if isinstance(inner, _Translated) else inner  # pyright: ignore[reportPrivateUsage]
        if inner is None:  # a handler of the user's, whose texts tell the server; its other values may change
            texts = {name: value for name, value in vars(handler).items() if isinstance(value, str)}
            parts += [filesystem.type_name, *_without_secrets(texts)]
        else:
            options = getattr(inner, "storage_options", {})
            parts += [type(inner).__qualname__, inner.protocol, getattr(inner, "storage_args", ())]
            parts += _without_secrets(options)
    else:
        _, arguments, *_ = cast("tuple[Any, ...]", filesystem.__reduce__())
        parts.append(type(filesystem).__name__)
        for argument in arguments:
            is_inner = hasattr(argument, "type_name")
            options = argument if isinstance(argument, dict) else {"": argument}
            parts += [filesystem_identity(argument)] if is_inner else _without_secrets(options)
    return repr(parts)


def _without_secrets(options: Mapping[Any, Any]) -> list[tuple[str, object]]:
    return sorted((str(name), repr(value)) for name, value in options.items() if not _SECRET.search(str(name)))


# Retries


T = TypeVar("T")
Cancellation = SimpleQueue[None]
"""Holds an item once the result is no longer needed. The garbage collector may call `put` at any time."""

_LOG = logging.getLogger("feedpipe")


def _sleep(seconds: float, cancellation: Cancellation | None) -> None:
    if cancellation is None:
        time.sleep(seconds)
        return
    with suppress(Empty):
        cancellation.put(cancellation.get(timeout=seconds))  # other calls look at it too


@dataclass(frozen=True)
class RetryPolicy:
    """The number of repeated attempts, and the pauses between them.

    Each attempt here may be three of pyarrow's S3 client, which pauses for up to a second or two between them and gives
    up each after three to ten seconds without data. So a server that is down for some ten seconds costs a pause, and
    one that never answers costs a minute.

    Attributes:
        max_attempts: attempts, the first one included.
        max_seconds: seconds after the first attempt in which another one may begin.
        first_pause: seconds before the second attempt at most; the limit doubles with each further attempt.
        max_pause: seconds of any pause at most. Each pause is drawn between 0 and its limit (full jitter), so that
            clients that failed together do not come back together.
        max_asked_pause: seconds that a server may ask to wait, as one that limits requests does. They come before the
            pause, and do not count against `max_seconds`.
        counts: repeated attempts by host.
    """

    max_attempts: int = 6
    max_seconds: float = 60.0
    first_pause: float = 0.2
    max_pause: float = 10.0
    max_asked_pause: float = 600.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float, Cancellation | None], None] = _sleep
    draw: Callable[[], float] = random.SystemRandom().random  # has no state that a fork would copy
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, call: Callable[[], T], path: str, cancellation: Cancellation | None = None) -> T:
        """Return the result of `call`, which is repeated after transient errors.

        Args:
            call: raises an `OSError` if storage fails.
            path: a path or URL for the log.
            cancellation: ends a pause and all further attempts.

        Raises:
            OSError: the first error that is not transient; or one that says how many attempts there were.
        """
        start = self.clock()
        failures = 0
        asked = 0.0  # in all
        while True:
            try:
                return call()
            except OSError as error:
                if not is_transient(error):
                    raise
                failures += 1
                pause = self.draw() * min(self.max_pause, self.first_pause * 2 ** (failures - 1))
                spent = self.clock() - start
                cancelled = cancellation is not None and not cancellation.empty()
                too_long = spent - asked + pause > self.max_seconds
                wait = hub.asked_pause(error) or 0.0
                if failures == self.max_attempts or too_long or wait > self.max_asked_pause or cancelled:
                    raise OSError(f"{describe(error)}; {failures} attempts in {spent:.1f} s") from shown_cause(error)
                self._count(path, error)
            asked += wait
            self.sleep(pause + wait, cancellation)

    def _count(self, path: str, error: OSError) -> None:
        """Count an attempt, and log the first one for a host, the 10th, the 100th and so on."""
        host = _host(path)
        self.counts[host] += 1
        count = self.counts[host]
        if str(count).strip("0") == "1":
            note = f" (attempt {count} that is made again there)" if count > 1 else ""
            _LOG.warning("%s: %s; trying again%s", shown_path(path), describe(error), note)


_policy = RetryPolicy()


def with_retries(call: Callable[[], T], path: str, cancellation: Cancellation | None = None) -> T:
    """Return the result of `call`, which is repeated after transient errors; see `RetryPolicy.run`."""
    return _policy.run(call, path, cancellation)


def _host(path: str) -> str:
    scheme, separator, rest = redacted_url(path).rpartition("://")
    return scheme + separator + rest.split("/", 1)[0]


# The meaning of errors


HDFS_UNKNOWN = 255
"""The `errno` of every error for which libhdfs has no other."""

_CREDENTIALS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE"
_REFUSED = f"access is denied, or the credentials are wrong or have expired; they come from {_CREDENTIALS}"
_SIGNATURE = f"the server refuses the signature: the secret key is wrong; it comes from {_CREDENTIALS}"
_REGION = "the bucket is in another region; AWS_REGION or `?region=` in the URL names it"
_AWS_ERROR = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation: ?(.*)", re.DOTALL)
_AWS_EXCEPTION = re.compile(r"ExceptionName: (\w+) Message: (.*)", re.DOTALL)
_CURL = re.compile(r"curlCode: (\d+), ([^;]*)")
_CURL_UNKNOWN_HOST, _CURL_BAD_CERTIFICATE = 6, 60

_MISSING_STATUSES = {None, 404, 410}
_BUSY_STATUSES = {408, 429, 500, 502, 503, 504}
_BUSY_AWS_ERRORS = {"SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "THROTTLING", "REQUEST_TIMEOUT"}
_BUSY_EXCEPTIONS = {
    "SlowDown",
    "ServiceUnavailable",
    "InternalError",
    "RequestTimeout",
    "Throttling",
    "TooManyRequests",
}
_AWS_MESSAGES = {
    "ACCESS_DENIED": _REFUSED,
    "INVALID_ACCESS_KEY_ID": f"the server does not know the access key; it comes from {_CREDENTIALS}",
    "INVALID_CLIENT_TOKEN_ID": _REFUSED,
    "INVALID_SIGNATURE": _SIGNATURE,
    "SIGNATURE_DOES_NOT_MATCH": _SIGNATURE,
    "REQUEST_EXPIRED": f"the credentials have expired; they come from {_CREDENTIALS}",
    "ExpiredToken": f"the credentials have expired; they come from {_CREDENTIALS}",
    "REQUEST_TIME_TOO_SKEWED": "the clock of this machine is wrong, so the server refuses the signature",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NO_SUCH_KEY": "there is no such object",
    "RESOURCE_NOT_FOUND": "there is no such object",
}
_STATUS_MESSAGES = {
    301: _REGION,
    307: _REGION,
    400: f"the server refuses the request: the credentials may have expired ({_CREDENTIALS}), or {_REGION}",
    401: _REFUSED,
    403: _REFUSED,
    416: "it has become shorter",
}
_ANSWERS = {
    401: "the server wants credentials (status 401)",
    403: "access is denied: the credentials are wrong, or the address has expired (status 403)",
    416: "it has become shorter",
    429: "the server limits requests (status 429)",
}
_LOST_CONNECTIONS = {"ConnectionError", "TimeoutError", "ClientConnectionError", "ClientPayloadError", "TransportError"}
"""Classes of errors; those of aiohttp and httpx are no `OSError`s."""
_TRANSIENT_ERRNOS = {
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.ETIMEDOUT,
    socket.EAI_AGAIN,
    HDFS_UNKNOWN,  # such as a DataNode that is gone, or a NameNode that does not answer
}


class _Meaning(NamedTuple):
    message: str
    transient: bool


def describe(error: BaseException) -> str:
    """A short message for an error."""
    return shown(_meaning(error).message)


def is_transient(error: BaseException) -> bool:
    """Return True if the next attempt may succeed, as after a busy server or a lost connection."""
    return _meaning(error).transient


def says_missing(error: OSError) -> bool:
    """Return True if the file does not exist, and False if it only cannot be reached."""
    return isinstance(error, FileNotFoundError) or "AWS Error NO_SUCH_BUCKET" in str(error)


def _meaning(error: BaseException) -> _Meaning:
    text = str(error)
    if aws := _AWS_ERROR.search(text):
        return _meaning_of_s3(aws[1], int(aws[2] or 0), aws[3])
    if "Unable to load libjvm" in text:
        return _Meaning("HDFS needs Java: install a JRE or JDK, and let JAVA_HOME name its folder", False)
    if "Unable to load libhdfs" in text:
        return _Meaning(
            "HDFS needs libhdfs.so of a Hadoop client: let HADOOP_HOME name Hadoop's folder, or ARROW_LIBHDFS_DIR the "
            "one with that file, and set CLASSPATH to what `hadoop classpath --glob` prints",
            False,
        )
    number = error.errno if isinstance(error, OSError) else None
    bases = {base.__name__ for base in type(error).__mro__}
    transient = bool(bases & _LOST_CONNECTIONS) or number in _TRANSIENT_ERRNOS
    if number == HDFS_UNKNOWN:
        message = "HDFS does not answer, or refuses; its client has printed what it knows"
        if not os.environ.get("CLASSPATH"):
            message += "; CLASSPATH is not set: `hadoop classpath --glob` prints what it needs"
        return _Meaning(message, transient)
    if (meant := hub.hub_message(error)) is not None:
        return _Meaning(meant, False)
    if (status := _status(error)) is not None:
        return _Meaning(_ANSWERS.get(status, f"the server answers with status {status}"), status in _BUSY_STATUSES)
    if isinstance(error, socket.gaierror):
        return _Meaning("there is no host of that name, or no network", transient)
    return _Meaning(os.strerror(number) if number else text or type(error).__name__, transient)


def _status(error: BaseException) -> int | None:
    """The status of an HTTP response, which fsspec's clients give their errors, or keep in their `response`."""
    status = getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _meaning_of_s3(name: str, status: int, text: str) -> _Meaning:
    """The meaning of an error of pyarrow's S3 client, which has a name or a status, and the server's text."""
    if name == "NETWORK_CONNECTION":
        curl = _CURL.search(text)
        code = int(curl[1]) if curl else 0
        if code == _CURL_UNKNOWN_HOST:
            return _Meaning("there is no host of that name, or no network", False)
        message = curl[2].strip() if curl else "the connection failed"
        return _Meaning(message[:1].lower() + message[1:], code != _CURL_BAD_CERTIFICATE)
    if unknown := _AWS_EXCEPTION.search(text):  # an exception whose name the client does not know
        name, text = unknown[1], unknown[2]
    if name in _BUSY_AWS_ERRORS or name in _BUSY_EXCEPTIONS or status in _BUSY_STATUSES:
        return _Meaning(f"the server is busy or fails ({f'status {status}' if status else name})", True)
    message = _AWS_MESSAGES.get(name) or _STATUS_MESSAGES.get(status) or ""
    return _Meaning(message or f"{' '.join(text.split()) or 'the server refuses'} ({status or name})", False)
