"""What three ranks of one job say to each other, in real processes; `job.py` has what they run."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp

pytest.importorskip("torch.distributed")

from .job import indexed, streamed

Answers = list[Any]
"""What each rank returned of one check."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank returned of all checks."""
    folder = tmp_path_factory.mktemp("job")
    command = [sys.executable, str(Path(__file__).with_name("job.py"))]
    ranks = [
        subprocess.Popen([*command, str(rank), str(folder)], stderr=subprocess.PIPE, text=True) for rank in range(3)
    ]
    try:
        errors = [rank.communicate(timeout=50)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0, 0], errors
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(3)]


@pytest.fixture
def answers(results: list[dict[str, Any]], request: pytest.FixtureRequest) -> Answers:
    """What the ranks returned of the check that the test is named after."""
    return [of_rank[request.node.name.removeprefix("test_")] for of_rank in results]


def test_messages(answers: Answers) -> None:
    assert answers == [["", "a", "ab", "of rank 0", [[0, 2**40], [1, 2**40], [2, 2**40]]]] * 3


def test_ranks_at_different_places(answers: Answers) -> None:
    error, members = answers[0]
    assert error.startswith("RankError: the ranks are not at the same place: ranks 0, 1: epoch 0; rank 2: epoch 1;")
    assert members == 3 and answers == [answers[0]] * 3


def test_a_rank_that_does_not_come(answers: Answers) -> None:
    assert answers == [None, [0, 2], None]


def test_states_are_gathered(answers: Answers) -> None:
    for place, pipe in enumerate((streamed(), indexed(), indexed())):
        taken, states = zip(*(of_rank[place] for of_rank in answers), strict=True)
        assert states[1:] == states[:-1]
        for ranks in (2, 3, 4):
            job = [fp.Loader(pipe, rank=rank, world_size=ranks, seed=5, even=None) for rank in range(ranks)]
            for loader in job:
                loader.load_state_dict(states[0])
            assert sorted(chain(*taken, *job)) == list(range(240))
    for rank, (*_, error) in enumerate(answers):
        assert f"this loader is rank 0 of 2, and this process is rank {rank} of 3 in the process group" in error
