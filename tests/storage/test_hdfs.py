"""Reading from a real HDFS: as from the local disk, in listings of many pages, and while a DataNode dies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError

from ..servers.client import Client
from ..servers.hdfs import Hdfs, write
from ..support.storage import filesystem as retry
from .naming import FILES, Place, check_names, check_workers

pytestmark = pytest.mark.hdfs


@contextmanager
def attempts(most: int) -> Iterator[None]:
    """Retries without pauses in the client process, where the body of a test runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry, "_policy", retry.RetryPolicy(max_attempts=most, sleep=lambda seconds, cancellation: None))
        yield


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.local(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def folder(hdfs: Hdfs, hdfs_client: Client, request: pytest.FixtureRequest, worker_id: str) -> str:
    """A folder with the same files; each process of pytest-xdist has its own."""
    folder = f"/{worker_id}/tree"
    hdfs_client.call(write, request.module, {"url": hdfs.url, "folder": folder, "files": FILES})
    return folder


def place(hdfs: Hdfs, folder: str, how: str) -> Place:
    """The same files, and the ways to name the server."""
    if how == "url":
        return Place(hdfs.url + folder)
    if how == "options":
        return Place(hdfs.url + folder, "?user=somebody&replication=1")
    from pyarrow import fs

    return Place(folder, options={"filesystem": fs.HadoopFileSystem("127.0.0.1", hdfs.port)})


@pytest.mark.parametrize("how", ["url", "options", "filesystem"])
def test_files_are_named_as_on_the_local_disk(here: Place, hdfs: Hdfs, folder: str, how: str) -> None:
    check_names(here, place(hdfs, folder, how))


@pytest.mark.slow
def test_two_workers(here: Place, hdfs: Hdfs, folder: str) -> None:
    check_workers(here, place(hdfs, folder, "filesystem"))


@pytest.mark.slow
def test_listings_of_many_pages(hdfs: Hdfs) -> None:
    names = [f"part-{i:05}.txt" for i in range(1100)]
    write(hdfs.url, "/many", dict.fromkeys(names, b"") | {"z/last.txt": b"last\n"})
    expected = [f"{hdfs.url}/many/{name}" for name in names]
    assert list(fp.list_files(f"{hdfs.url}/many")) == expected
    assert list(fp.list_files(f"{hdfs.url}/many/part*")) == expected
    assert list(fp.read_lines(f"{hdfs.url}/many/**/last.txt")) == ["last"]


def test_what_is_missing(hdfs: Hdfs, folder: str) -> None:
    for path in ("none.csv", "none/*.csv"):
        with pytest.raises(MissingError, match=f"{folder}/.* is not there"):
            list(fp.read_csv(f"{hdfs.url}{folder}/{path}"))
    file = fp.File(f"{hdfs.url}{folder}/none.csv")
    for look in (file.open, file.size):
        with pytest.raises(MissingError, match="none.csv is not there"):
            look()


def test_a_folder_is_no_file(hdfs: Hdfs, folder: str) -> None:
    for look in (fp.File(f"{hdfs.url}{folder}").open, fp.File(f"{hdfs.url}{folder}").size):
        with pytest.raises(SourceError, match="cannot be opened: it is a folder") as error:
            look()
        assert not isinstance(error.value, MissingError)


def test_a_server_that_is_not_there() -> None:
    """The client says that every file is missing, but this must not be a `MissingError`."""
    looks: list[Any] = [
        lambda: list(fp.read_csv("hdfs://127.0.0.1:1/a.csv")),
        lambda: list(fp.read_csv("hdfs://127.0.0.1:1/*.csv")),
        fp.File("hdfs://127.0.0.1:1/a.csv").size,
        fp.File("hdfs://127.0.0.1:1/a.csv").open,
    ]
    for look in looks:
        with (
            attempts(6),
            pytest.raises(
                SourceError, match="hdfs://127.0.0.1:1/.*csv cannot be .*: HDFS does not answer.*; 6 attempts"
            ) as error,
        ):
            look()
        assert not isinstance(error.value, MissingError)


@pytest.mark.slow
@pytest.mark.hdfs(alone=True)
def test_a_datanode_that_dies(hdfs: Hdfs) -> None:
    lines = [f"{i:09}" for i in range(1_000_000)]
    write(hdfs.url, "/death", {"a.txt": "".join(f"{line}\n" for line in lines).encode()})
    rows = iter(fp.read_lines(f"{hdfs.url}/death/a.txt"))
    read = list(itertools.islice(rows, 100_000))
    for number in (0, 1):
        hdfs.kill_datanode(number)
        read += itertools.islice(rows, 300_000)
        hdfs.start_datanode(number)
    assert read + list(rows) == lines


@pytest.mark.slow
@pytest.mark.hdfs(alone=True)
def test_all_datanodes_die(hdfs: Hdfs) -> None:
    write(hdfs.url, "/deaths", {"a.txt": b"".join(b"%09d\n" % i for i in range(2_000_000))})
    rows = iter(fp.read_lines(f"{hdfs.url}/deaths/a.txt"))
    read = list(itertools.islice(rows, 1000))
    for number in (0, 1):
        hdfs.kill_datanode(number)
    try:
        message = r"/deaths/a.txt cannot be read after byte \d+: HDFS does not answer"
        with attempts(1), pytest.raises(SourceError, match=message):  # the client retries too, with long pauses
            for row in rows:
                read.append(row)
    finally:
        for number in (0, 1):
            hdfs.start_datanode(number)
    assert read == [f"{i:09}" for i in range(len(read))]
