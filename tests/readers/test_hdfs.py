"""Every reader on a real HDFS, also while a DataNode dies."""

from __future__ import annotations

import pytest

from ..servers.client import Client
from ..servers.hdfs import Hdfs, write
from .cases import CASES
from .checks import (
    HDFS_READERS,
    Place,
    alike,
    all_files,
    check_resume,
    check_rows,
    check_shuffled,
    check_workers,
    small_requests,
)

pytestmark = pytest.mark.hdfs
READERS = pytest.mark.parametrize("name", HDFS_READERS)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.local(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def there(hdfs: Hdfs, hdfs_client: Client, request: pytest.FixtureRequest, worker_id: str) -> Place:
    """A folder with the same files; each process of pytest-xdist has its own."""
    folder = f"/{worker_id}/readers"
    hdfs_client.call(write, request.module, {"url": hdfs.url, "folder": folder, "files": all_files()})
    return Place(hdfs.url + folder)


@READERS
def test_rows(name: str, there: Place) -> None:
    check_rows(name, there)


@pytest.mark.slow
@READERS
def test_resume(name: str, here: Place, there: Place) -> None:
    check_resume(name, here, there)


@READERS
def test_shuffled(name: str, here: Place, there: Place) -> None:
    check_shuffled(name, here, there)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["csv", "images"])
def test_two_workers(name: str, here: Place, there: Place) -> None:
    check_workers(name, here, there)


@pytest.mark.slow
@pytest.mark.hdfs(alone=True)
def test_a_datanode_that_dies(hdfs: Hdfs, there: Place) -> None:
    """When it dies, all readers have begun, and have not read the larger part of their last file."""
    with small_requests():
        runs = {name: iter(there.read(name)) for name in HDFS_READERS}
        rows = {name: [next(run)] for name, run in runs.items()}
        hdfs.kill_datanode(0)
        try:
            for name, run in runs.items():
                rows[name] += run
        finally:
            hdfs.start_datanode(0)
    for name in HDFS_READERS:
        alike(there.below(name, rows[name]), CASES[name].rows())
