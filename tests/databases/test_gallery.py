"""The gallery's page on databases, which is shown with SQLite, runs with PostgreSQL after a change of one line."""

from __future__ import annotations

import json
from pathlib import Path

from ..servers.postgres import Postgres
from ..support.site import gallery

SQLITE = '{"uri": "sqlite://rides.db", "driver": "dbapi"}'


def test_the_page_runs_with_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    text = (gallery.FOLDER / "postgresql.py").read_text(encoding="utf-8")
    assert text.count(SQLITE) == 1
    page = tmp_path / "postgresql.py"
    page.write_text(text.replace(SQLITE, repr({"uri": postgres.uri})), encoding="utf-8")
    gallery.run_apart(page, tmp_path / "page.json")
    assert "read_sql('SELECT id, hour" in json.loads((tmp_path / "page.json").read_text())["text"]
