"""What `read_sql` says of an address that it cannot read."""

from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError


def test_a_path_is_no_uri() -> None:
    with pytest.raises(ArgumentError, match="`uri` must be a URI such as .* or 'sqlite://file.db'"):
        fp.read_sql("SELECT 1", "points.db")


def test_sqlite_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedpipe.core.checks.find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match='^without `driver="dbapi"`, SQLite is read with the package adbc-driver-'):
        fp.read_sql("SELECT 1", "sqlite://points.db")
    with pytest.raises(ArgumentError, match=r"^this database is read .* `pip install 'feedpipe\[sql\]'` installs"):
        fp.read_sql("SELECT 1", "postgresql://host/points")
