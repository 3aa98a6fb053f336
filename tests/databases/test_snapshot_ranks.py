"""One snapshot for all ranks of a job, in real processes; `snapshot_job.py` has what they run."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg

from ..servers.postgres import Postgres
from .snapshot_job import WORLD_SIZE

COUNT = 20_000


def test_ranks_see_the_rows_of_one_moment(postgres: Postgres, tmp_path: Path) -> None:
    with closing(psycopg.connect(postgres.uri, autocommit=True)) as connection:
        connection.execute("DROP TABLE IF EXISTS shared")
        connection.execute("CREATE TABLE shared (id int PRIMARY KEY)")
        connection.execute(f"INSERT INTO shared SELECT * FROM generate_series(1, {COUNT})")
    script = str(Path(__file__).with_name("snapshot_job.py"))
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(tmp_path), postgres.uri], stderr=subprocess.PIPE, text=True
        )
        for rank in range(WORLD_SIZE)
    ]
    try:
        errors = [rank.communicate(timeout=200)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * WORLD_SIZE, errors
    parts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(WORLD_SIZE)]
    assert all(len(part) > COUNT / 3 for part in parts)
    assert sorted(parts[0] + parts[1]) == list(range(1, COUNT + 1))
    with closing(psycopg.connect(postgres.uri, autocommit=True)) as connection:
        assert connection.execute("SELECT count(*) FROM shared").fetchone() == (COUNT // 2,)
