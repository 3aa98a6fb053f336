"""Every reader on every storage but HDFS, which has its own test file."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pytest

import feedpipe as fp
from feedpipe.testing import check_operator

from ..servers.s3 import S3
from ..storage.remote_store import RemoteStore
from ..support.core import walk
from .cases import CASES
from .checks import READERS, Place, all_files, check_resume, check_rows, check_shuffled, check_workers, small_units


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.local(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Place]:
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/readers/{name}": data for name, data in all_files().items()})
    yield Place("memory://readers")
    memory.rm("/readers", recursive=True)


@pytest.fixture(scope="module")
def remote() -> Place:
    files = {f"readers/{name}": data for name, data in all_files().items()}
    return Place("readers", {"filesystem": RemoteStore(files).filesystem})


@pytest.fixture(scope="module")
def bucket(s3_server: S3) -> str:
    s3_server.put("readers", all_files())
    return "readers"


def on(*places: str) -> pytest.MarkDecorator:
    """Run a test with every reader on those of these storages that it reads; HDFS has its own test file."""
    cases = [
        pytest.param(name, place, marks=[pytest.mark.slow] if place == "s3" else [])
        for name, case in CASES.items()
        for place in case.storages
        if place in places
    ]
    return pytest.mark.parametrize(("name", "there"), cases, indirect=["there"])


@pytest.fixture
def there(request: pytest.FixtureRequest) -> Place:
    if request.param == "local":
        return request.getfixturevalue("here")
    if request.param == "memory":
        return request.getfixturevalue("in_memory")
    if request.param == "remote":
        return request.getfixturevalue("remote")
    request.getfixturevalue("s3")
    return Place(f"s3://{request.getfixturevalue('bucket')}")


def test_every_reader_has_a_case(here: Place) -> None:
    kinds = {node.op.kind for name in CASES for node in walk(here.read(name))}
    # `read_sql` reads no files, and Lance and Zarr have their own storage; their tests are elsewhere.
    elsewhere = {"sql", "lance", "zarr"}
    readers = {name.removeprefix("read_") for name in vars(fp) if name.startswith("read_")} - elsewhere
    assert readers <= {kind.partition("_")[2] for kind in kinds}, "add the reader to `cases.py`"


@on("local", "memory", "remote", "s3")
def test_rows(name: str, there: Place) -> None:
    check_rows(name, there)


@READERS
def test_law(name: str, here: Place) -> None:
    with small_units():
        check_operator(here.read(name), samples=3)


@on("local", "remote", "s3")
def test_resume(name: str, here: Place, there: Place) -> None:
    check_resume(name, here, there)


@on("remote", "s3")
def test_shuffled(name: str, here: Place, there: Place) -> None:
    check_shuffled(name, here, there)


@pytest.mark.slow
@pytest.mark.parametrize("there", ["s3"], indirect=True)
@READERS
def test_two_workers(name: str, here: Place, there: Place) -> None:
    check_workers(name, here, there)
