"""Reading from a real HDFS: as from the local disk, page after page, and when a DataNode dies."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import MissingError, SourceError

from ..servers.client import Client
from ..servers.hdfs import Hdfs
from ..servers.readers import FILES, READERS, Place, check_resume, check_rows, check_workers, write_files

pytestmark = pytest.mark.hdfs


def write(url: str, folder: str, files: dict[str, bytes]) -> None:
    from pyarrow import fs

    filesystem, _ = fs.FileSystem.from_uri(url)

    def one(item: tuple[str, bytes]) -> None:
        with filesystem.open_output_stream(f"{folder}/{item[0]}", compression=None) as stream:
            stream.write(item[1])

    # HDFS takes its time to close a file, so all of them at once.
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, files.items()))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return write_files(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def folder(hdfs: Hdfs, hdfs_client: Client, request: pytest.FixtureRequest, worker_id: str) -> str:
    """A folder with the same files; each process of pytest-xdist has its own."""
    folder = f"/{worker_id}/tree"
    hdfs_client.call(write, request.module, {"url": hdfs.url, "folder": folder, "files": FILES})
    return folder


def place(hdfs: Hdfs, folder: str, how: str) -> Place:
    """The same files, and the ways to tell where the server is."""
    if how == "url":
        return Place(hdfs.url + folder)
    if how == "options":
        return Place(hdfs.url + folder, "?user=somebody&replication=1")
    from pyarrow import fs

    return Place(folder, options={"filesystem": fs.HadoopFileSystem("127.0.0.1", hdfs.port)})


WAYS = pytest.mark.parametrize("how", ["url", "options", "filesystem"])


@WAYS
@pytest.mark.parametrize("ending", READERS)
def test_rows_are_those_of_the_local_disk(here: Place, hdfs: Hdfs, folder: str, how: str, ending: str) -> None:
    check_rows(here, place(hdfs, folder, how), ending)


@pytest.mark.parametrize("ending", READERS)
def test_resume(here: Place, hdfs: Hdfs, folder: str, ending: str) -> None:
    check_resume(here, place(hdfs, folder, "url"), ending)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["url", "filesystem"])
def test_two_workers(here: Place, hdfs: Hdfs, folder: str, how: str) -> None:
    check_workers(here, place(hdfs, folder, how), "csv")


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


def test_a_server_that_is_not_there() -> None:
    """Its client says that everything is missing; a failed look is none."""
    looks: list[Any] = [
        lambda: list(fp.read_csv("hdfs://127.0.0.1:1/a.csv")),
        lambda: list(fp.read_csv("hdfs://127.0.0.1:1/*.csv")),
        fp.File("hdfs://127.0.0.1:1/a.csv").size,
        fp.File("hdfs://127.0.0.1:1/a.csv").open,
    ]
    for look in looks:
        with pytest.raises(SourceError, match="hdfs://127.0.0.1:1/.*csv cannot be .*: HDFS does not answer") as error:
            look()
        assert not isinstance(error.value, MissingError)


@pytest.mark.slow
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
