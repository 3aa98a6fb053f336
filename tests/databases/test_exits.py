"""The end of ranks that read a database: no thread, driver or process group ends them by a signal."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ..servers.postgres import Postgres
from ..soak import SOAK
from .exit_job import WORLD_SIZE


@pytest.fixture(scope="module")
def uri(postgres: Postgres) -> str:
    with closing(psycopg.connect(postgres.uri, autocommit=True)) as connection:
        connection.execute("DROP TABLE IF EXISTS exits")
        connection.execute("CREATE TABLE exits (id int PRIMARY KEY)")
        connection.execute("INSERT INTO exits SELECT * FROM generate_series(1, 20000)")
    return postgres.uri


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(SOAK))
@pytest.mark.parametrize("how", ["", "early", "destroy", "early destroy"])
def test_ranks_end_by_themselves(uri: str, tmp_path: Path, how: str, turn: int) -> None:
    script = str(Path(__file__).with_name("exit_job.py"))
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), f"file://{tmp_path}/store", uri, how], stderr=subprocess.PIPE, text=True
        )
        for rank in range(WORLD_SIZE)
    ]
    try:
        errors = [rank.communicate(timeout=200)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * WORLD_SIZE, errors
