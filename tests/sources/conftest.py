"""Fixtures of the tests of `read_sql`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .sql_files import rows, write_sqlite


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """The URI of an SQLite file with 100 points."""
    return write_sqlite(tmp_path / "points.db", rows(100))
