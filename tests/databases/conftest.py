"""Tests with real database servers, which only the environment of `make test-databases` has drivers for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from ..servers.galera import Galera
from ..servers.postgres import Postgres

collect_ignore_glob = [] if importlib.util.find_spec("adbc_driver_postgresql") else ["test_*.py"]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    server = Postgres.start(tmp_path_factory.mktemp("postgres") / "server.log")
    yield server
    server.process.close()


@pytest.fixture(scope="session")
def galera(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Galera]:
    cluster = Galera.start(tmp_path_factory.mktemp("galera") / "server.log")
    yield cluster
    cluster.process.close()
