"""Fixtures of the tests of `write_sql`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .sql_store import Store


@pytest.fixture(params=["sqlite", "duckdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(f"{request.param}://{tmp_path}/a.db", "dbapi" if request.param == "sqlite" else None)


@pytest.fixture
def sqlite(tmp_path: Path) -> Store:
    return Store(f"sqlite://{tmp_path}/a.db", "dbapi")
