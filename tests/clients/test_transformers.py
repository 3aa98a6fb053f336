"""The Trainer of Transformers: which rows training sees, on one process and on two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp

from .transformers_job import BATCH, ROWS, indexed, streamed, train
from .two_ranks import run_on_two_ranks

JOB = Path(__file__).with_name("transformers_job.py")
STEPS = ROWS // BATCH


def make(name: str, **options: Any) -> fp.Loader[Any]:
    return fp.Loader(indexed(), seed=1, **options) if name == "indexed" else fp.Loader(streamed(), seed=1, steps=STEPS)


def two_epochs(loader: fp.Loader[Any]) -> list[int]:
    return [x for _ in range(2) for batch in loader for x in batch["x"].tolist()]


@pytest.mark.parametrize("name", ["indexed", "streamed"])
@pytest.mark.parametrize("accumulated", [1, 3], ids=["plain", "accumulation"])
def test_resume_loses_and_repeats_nothing(tmp_path: Path, name: str, accumulated: int) -> None:
    expected = two_epochs(make(name))
    options = {"gradient_accumulation_steps": accumulated}
    assert train(tmp_path, make(name), **options) == expected
    updates = -(-STEPS // accumulated)  # of the optimiser, in an epoch
    for step in (4, updates + updates % 2 + 2):  # in the first epoch, and in the second
        before = step * accumulated if step <= updates else STEPS + (step - updates) * accumulated
        assert train(tmp_path, make(name), tmp_path / f"checkpoint-{step}", **options) == expected[before * BATCH :]


def test_workers(tmp_path: Path) -> None:
    expected = two_epochs(make("indexed"))
    with make("indexed", workers=2) as loader:
        assert train(tmp_path, loader) == expected
    with make("indexed", workers=2) as loader:
        assert train(tmp_path, loader, tmp_path / "checkpoint-14") == expected[14 * BATCH :]


def test_two_processes(tmp_path: Path) -> None:
    run_on_two_ranks(JOB, str(tmp_path))
    for name in ("indexed", "streamed"):
        ranks = [json.loads((tmp_path / f"{name}.{rank}").read_text()) for rank in (0, 1)]
        epoch = [x for rank in ranks for x in rank["whole"][: ROWS // 2]]
        assert sorted(epoch) == list(range(ROWS))
        for rank in ranks:
            assert rank["resumed"] == rank["whole"][6 * BATCH :]
