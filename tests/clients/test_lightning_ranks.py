"""Lightning on two processes, `ddp` and `ddp_fork`, with loaders that are made at the top of the script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .lightning_job import BATCH, ROWS

JOB = Path(__file__).with_name("lightning_job.py")


@pytest.fixture(params=["ddp", "ddp_fork"], scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    done = subprocess.run(
        [sys.executable, str(JOB), request.param, str(folder)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder


def rows_of(folder: Path, run: str) -> list[list[int]]:
    """The rows that each of two ranks saw."""
    return [
        [x for rows in json.loads((folder / f"{run}.{rank}").read_text()).values() for x in rows] for rank in (0, 1)
    ]


@pytest.mark.parametrize("pipe", ["indexed", "streamed"])
def test_ranks_share_the_rows_and_go_on_with_theirs(folder: Path, pipe: str) -> None:
    whole, resumed = (rows_of(folder, f"{pipe}-{run}") for run in ("whole", "resumed"))
    assert sorted(sum(whole, [])) == list(range(ROWS))
    assert resumed == [rows[4 * BATCH :] for rows in whole]
