"""Four ranks in real processes, some of which get the elements of another; `replicas_job.py` has what they run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.distributed  # noqa: F401, the ranks need it

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each rank found."""
    folder = tmp_path_factory.mktemp("replicas")
    job = str(Path(__file__).with_name("replicas_job.py"))
    command = [sys.executable, job, str(folder)]
    ranks = [subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(4)]
    errors = [rank.communicate(timeout=600)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [-9, 0, 0, -9], errors  # checks kill the first and the last one
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


@pytest.mark.slow
def test_ranks_have_the_elements_and_states_of_their_reader(found: Found) -> None:
    elements = [of_rank["elements"] for of_rank in found]
    for workers in ("workers 0", "workers 1"):
        assert elements[0][workers] == elements[1][workers] != elements[2][workers] == elements[3][workers]
        for of_rank in elements:
            (first, second, resumed), rest, _ = of_rank[workers]
            assert first == of_rank["alone"][: len(first)] and resumed and second[-3:] + resumed != rest
    assert elements[0]["workers 0"][0][0] == elements[0]["workers 1"][0][0]


@pytest.mark.slow
def test_an_error_comes_at_the_same_step(found: Found) -> None:
    message = "`.map(failing)` failed with ValueError: broken"
    assert [of_rank["error"] for of_rank in found] == [[20, message]] * 4


@pytest.mark.slow
def test_the_death_of_the_reader_is_an_error_at_the_same_step(found: Found) -> None:
    message = "the rank of `replicas` that reads has ended, so all of them stop"
    assert [of_rank["killed"] for of_rank in found[1:]] == [[25, message]] * 3


@pytest.mark.slow
def test_the_death_of_another_rank_is_an_error_on_all(found: Found) -> None:
    reader, other = (found[rank]["follower_killed"] for rank in (1, 2))
    assert reader == ["a rank of `replicas` has ended, so all of them stop"] * 2
    assert other == ["the rank of `replicas` that reads has ended, so all of them stop"] * 2


@pytest.mark.slow
def test_ranks_of_several_machines_get_elements_by_the_process_group(found: Found) -> None:
    for of_rank in found:
        assert of_rank["carried"] == of_rank["elements"]["workers 0"][0][0]


def test_arguments() -> None:
    pipe = fp.from_sequence(range(4))
    with pytest.raises(ArgumentError, match="`replicas` must be given with `group`, or with `rank` and `world_size`"):
        fp.Loader(pipe, replicas="tp")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="must be a process group or a device mesh but got: 'tp'"):
        fp.Loader(pipe, rank=0, world_size=1, replicas="tp")  # type: ignore[arg-type]
