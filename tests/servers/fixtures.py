"""Fixtures for the servers, and the mark that runs a test in a process that can be an HDFS client."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import Client
from .hdfs import Hdfs, shared_hdfs
from .s3 import S3


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A real HDFS; tests that use it have the mark `hdfs`."""
    faulthandler.cancel_dump_traceback_later()  # the first start on a machine takes longer than a test may
    with shared_hdfs(_shared_folder(tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_client(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The process for tests with the mark `hdfs`."""
    log = tmp_path_factory.mktemp("hdfs") / "client.log"
    client = Client(hdfs.environment, log, _shared_folder(tmp_path_factory) / "hdfs.calls")
    yield client
    client.close()


def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of pytest-xdist share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the function of a test with the mark `hdfs` in the client process; its fixtures stay in this process."""
    marker = pyfuncitem.get_closest_marker("hdfs")
    if marker is None:
        return None
    # The client has a time limit of its own, which does not count the wait for tests that must be alone.
    faulthandler.cancel_dump_traceback_later()
    client = pyfuncitem._request.getfixturevalue("hdfs_client")
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    client.call(pyfuncitem.obj, pyfuncitem.module, arguments, **marker.kwargs)
    return True


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    server = S3.start(tmp_path_factory.mktemp("s3") / "server.log")
    yield server
    server.process.close()


@pytest.fixture
def s3(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """An S3 server, to which plain `s3://` URLs lead while the test runs."""
    from ..support.storage import _connect

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    _connect.cache_clear()  # clients of earlier tests lead to other servers
    yield s3_server
    _connect.cache_clear()
