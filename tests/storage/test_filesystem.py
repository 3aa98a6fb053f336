"""Paths and URLs, and the file systems that they lead to."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable

import fsspec
import pytest

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError

from ..support.storage import RetryPolicy, filesystem, locate, split_options


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("s3://bucket/a.csv", "?region=eu-west-1"),
        ("s3://bucket/a.csv", "?endpoint_override=http://localhost:9000&region=x"),
        ("s3://bucket/**/year=202?/*.csv", "?scheme=http"),
        ("s3://bucket/a?.csv", ""),
        ("s3://bucket/year?2024/*.csv", ""),
        ("s3://bucket/?ear=2024/*.csv", ""),
        ("hdfs://host:8020/a", "?user=me"),
        ("https://host/a.csv?token=1", ""),
        ("/data/a?b=c", ""),
    ],
)
def test_options_of_urls(path: str, options: str) -> None:
    assert split_options(path + options) == (path, options)


def test_urls_that_cannot_be_read() -> None:
    with pytest.raises(SourceError, match="nothing here reads URLs such as 'nosuch://host'"):
        locate("nosuch://host/a")
    with pytest.raises(SourceError, match="names the host 'elsewhere'"):
        locate("file://elsewhere/a")


@pytest.mark.parametrize("wrapped", [False, True])
def test_each_open_file_in_memory_has_a_position_of_its_own(wrapped: bool) -> None:
    # fsspec itself gives every caller the same object, with one position.
    memory = fsspec.filesystem("memory")
    memory.pipe("/shared/a.txt", b"".join(b"%08d\n" % i for i in range(60_000)))
    within = fsspec.filesystem("dir", fs=memory, path="/shared") if wrapped else None
    lines = fp.read_lines("a.txt" if wrapped else "memory://shared/a.txt", filesystem=within)
    assert all(line == again for line, again in lines.zip(lines.map(str)))


class RefusedError(Exception):
    """An error of a client for HTTP."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status}, message='...', url='http://host/a.csv?token=hunter2'")
        self.status = status


class ClientPayloadError(Exception):
    """aiohttp's error of a connection that is lost; it has no status."""


class Refusing(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A file system all of whose files give an error, as that for HTTP: `info` calls them missing."""

    protocol = "refusing"
    cachable = False

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = [*errors]

    def info(self, path: str, **options: object) -> dict[str, object]:
        if self.errors:
            raise FileNotFoundError(path) from self.errors.pop(0)
        return {"name": path, "size": 4, "type": "file"}

    def _open(self, path: str, *arguments: object, **options: object) -> io.IOBase:
        return Refused(b"1234")


class Refused(io.BytesIO):
    """A file that is refused when it is read."""

    def read(self, size: int | None = -1) -> bytes:
        raise RefusedError(401)


@pytest.mark.parametrize("read", [lambda file: file.open(), lambda file: file.size()])
def test_a_file_that_a_server_refuses_is_named(read: Callable[[fp.File], object]) -> None:
    file = fp.File("a.csv", filesystem=Refusing(RefusedError(403)))
    with pytest.raises(SourceError, match=r"^a\.csv cannot be opened: access is denied: .* \(status 403\)$") as error:
        read(file)
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


def test_a_file_that_is_refused_when_it_is_read_is_named() -> None:
    with pytest.raises(SourceError, match=r"^a\.csv cannot be read after byte 0: the server wants credentials"):
        fp.File("a.csv", filesystem=Refusing()).open().read()


def test_a_missing_file_of_a_server_is_missing() -> None:
    for error in (RefusedError(404), RefusedError(410)):
        with pytest.raises(MissingError, match=r"^a\.csv is not there"):
            fp.File("a.csv", filesystem=Refusing(error)).open()


def test_a_lost_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "_policy", RetryPolicy(sleep=lambda seconds, cancellation: None))
    errors = [ClientPayloadError("cut off"), RefusedError(503), ConnectionResetError("reset")]
    assert fp.File("a.csv", filesystem=Refusing(*errors)).size() == 4
