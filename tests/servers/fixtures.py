"""The servers as fixtures, and the mark that lets a test run where HDFS can be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import Client
from .hdfs import Hdfs, shared_hdfs
from .s3 import S3


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A real HDFS; tests that look at it are marked `hdfs`."""
    with shared_hdfs(_shared(tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_client(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The process in which tests marked `hdfs` run."""
    log = tmp_path_factory.mktemp("hdfs") / "client.log"
    client = Client(hdfs.environment, log, _shared(tmp_path_factory) / "hdfs.turns")
    yield client
    client.close()


def _shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of pytest-xdist have in common."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the function of a test marked `hdfs` in a process that can be a client; its fixtures stay in this one."""
    marker = pyfuncitem.get_closest_marker("hdfs")
    if marker is None:
        return None
    client = pyfuncitem._request.getfixturevalue("hdfs_client")
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    client.call(pyfuncitem.obj, pyfuncitem.module, arguments, **marker.kwargs)
    return True


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    server = S3.started(tmp_path_factory.mktemp("s3") / "server.log")
    yield server
    server.process.close()


@pytest.fixture
def s3(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """An S3 server, which plain `s3://` URLs lead to while the test runs."""
    from feedpipe.storage.filesystem import _connect

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    _connect.cache_clear()  # what another test has opened leads elsewhere
    yield s3_server
    _connect.cache_clear()
