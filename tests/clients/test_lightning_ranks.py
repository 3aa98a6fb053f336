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
def test_ranks_share_the_rows(folder: Path, pipe: str) -> None:
    first, second = rows_of(folder, f"{pipe}-whole")
    assert sorted(first + second) == list(range(ROWS))


@pytest.mark.parametrize("pipe", ["indexed", "streamed"])
def test_each_rank_goes_on_with_its_rows(folder: Path, pipe: str) -> None:
    for whole, resumed in zip(rows_of(folder, f"{pipe}-whole"), rows_of(folder, f"{pipe}-resumed"), strict=True):
        assert resumed == whole[4 * BATCH :]
