"""What four ranks of one job say to each other, in real processes; `job.py` has what they run."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed  # noqa: F401, the ranks need it

import feedpipe as fp

from .job import indexed, seventh_is_missing, streamed

pytestmark = pytest.mark.slow  # its tests share one job

Answers = list[Any]
"""What each rank returned of one check."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank returned of all checks."""
    faulthandler.cancel_dump_traceback_later()  # on a busy machine, four processes begin slowly
    folder = tmp_path_factory.mktemp("job")
    command = [sys.executable, str(Path(__file__).with_name("job.py")), str(folder)]
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, errors = job.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode == 0, errors
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


@pytest.fixture
def answers(results: list[dict[str, Any]], request: pytest.FixtureRequest) -> Answers:
    """What the ranks returned of the check that the test is named after."""
    return [of_rank[request.node.name.removeprefix("test_")] for of_rank in results]


def test_ranks_at_different_places(answers: Answers) -> None:
    error, members = answers[0]
    assert error.startswith("RankError: the ranks are not at the same place: ranks 0, 1: epoch 0; ranks 2, 3: epoch 1;")
    assert members == 4 and answers == [answers[0]] * 4


NUMBERS = [number for number in range(100) if number % 7 or number in (0, 14)]


def test_uneven_ranks(answers: Answers) -> None:
    own = [[number for number, valid in of_rank["pad"][1] if valid] for of_rank in answers]
    lengths = list(map(len, own))
    assert sorted(itertools.chain(*own)) == NUMBERS and min(lengths) < max(lengths)
    for rank, of_rank in enumerate(answers):
        repeated = [number for number, valid in of_rank["pad"][1] if not valid]
        assert len(of_rank["pad"][1]) == max(lengths) and repeated == own[rank][: len(repeated)]
        assert [number for number, _ in of_rank["drop"][1]] == own[rank][: min(lengths)]
        assert of_rank["drop"][2:] == of_rank["pad"][2:] == [1, 0]
        error, taken = of_rank["error"][:2]
        assert error.startswith("PlanError: the ranks have different numbers of elements, and `even` is 'error': ")
        assert len(taken) == min(lengths)


def test_workers_and_breaks(answers: Answers) -> None:
    epochs = list(zip(*answers, strict=True))
    assert {len(part) for part in epochs[0]} == {5} and {len(part) for part in epochs[1]} == {11}
    assert len({len(part) for part in epochs[2]}) == 1
    rows = list(itertools.chain(*epochs[2]))
    assert len(rows) == len(set(rows)) > 60 and set(rows) <= set(NUMBERS)


def test_states(answers: Answers) -> None:
    taken = [before + after for before, after, *_ in answers]
    assert len({len(part) for part in taken}) == 1
    rows = list(itertools.chain(*taken))
    assert len(rows) == len(set(rows)) > 70 and set(rows) <= set(NUMBERS)
    # A state after the last step of all ranks is the beginning of the next epoch.
    assert all(resumed == [steps, 2] for _, _, steps, resumed in answers)


def test_a_pipe_that_changes(answers: Answers) -> None:
    """All ranks take the same number of steps, and each row comes once."""
    assert len({steps for _, _, steps in answers}) == 1
    rows = [row for before, after, _ in answers for row in (*before, *after)]
    assert sorted(rows) == [n for begin in (0, 1000) for n in range(begin, begin + 200) if seventh_is_missing(n)]


def test_a_rank_without_elements(answers: Answers) -> None:
    for errors in answers:
        for error in errors:
            assert error.startswith("PlanError: rank 2 of 4 has no element at all, and others have some;")


def test_a_rank_that_fails(answers: Answers) -> None:
    (failing,) = (rank for rank, (_, error, _) in enumerate(answers) if error.startswith("RowError"))
    assert len({steps for steps, _, _ in answers}) == 1, "all ranks stop at the same step"
    for rank, (_, error, fails_again) in enumerate(answers):
        assert fails_again and "ValueError: no fifty\n" in error and "from_sequence, row 51" in error
        if rank != failing:
            assert error.startswith(f"RankError: rank {failing} of 4 has failed, so all ranks stop\n")


def test_a_rank_that_fails_while_others_run(answers: Answers) -> None:
    for rank, error in enumerate(answers):
        assert error.startswith("RowError" if rank == 2 else "RankError: rank 2 of 4 has failed, so all ranks stop\n")
        assert "ValueError: no fifty" in error


def test_ranks_that_disagree(answers: Answers) -> None:
    seeds, pipes, states, taken = zip(*answers, strict=True)
    assert {error.split("\n")[1].strip() for error in seeds} == {"`seed`: ranks 0, 1: 0; ranks 2, 3: 1"}
    assert len(set(pipes)) == 1 and "rank 3 has another pipe or other data than rank 0: `batch(1)`" in pipes[0]
    assert len(set(states)) == 1 and "the step: ranks 0, 1, 2: 1; rank 3: 2" in states[0]
    assert len(set(taken)) == 4, "afterwards the ranks go on together"


def test_a_rank_that_does_not_ask(answers: Answers) -> None:
    waiting = [first for first, _, _ in answers]
    assert all("rank 2 of 4 had asked for no element of this loader" in waiting[rank] for rank in (0, 1, 3))
    assert "has failed, so all ranks stop" in answers[2][1], "it hears of it when it comes"
    assert sorted(sum((json.loads(rows) for _, _, rows in answers), [])) == list(range(20))


def test_a_rank_that_leaves_early(answers: Answers) -> None:
    for rank, (error, epoch, step, (first, *later)) in enumerate(answers):
        assert first == later[0] and len(later) == 5, "afterwards the ranks go on together"
        if rank == 1:
            assert (error, epoch, step) == ("deque([], maxlen=0)", 1, 3)
        else:
            assert "rank 1 of 4 has left the epoch after step 3, and this rank goes on; all ranks must take" in error


def test_a_rank_that_stops_asking(answers: Answers) -> None:
    for rank, (error, later, steps) in enumerate(answers):
        assert steps == answers[0][2] > 80, "afterwards the ranks go on together"
        if rank == 1:
            assert "has failed, so all ranks stop" in later, "it hears of it when it asks"
        else:
            place = r'"loader \d+: elements after step \d+"'
            assert re.search(f"rank 1 of 4 did not come to {place} within 0.5 seconds, the timeout of the proc", error)
            assert re.search(f"the last place to which all ranks came is {place}; a rank that takes no more", error)


def test_padding_goes_on_after_a_state(answers: Answers) -> None:
    for whole, rests in answers:
        assert rests == [whole[-3:], whole[-2:], whole[-1:]]
    assert any(not valid for whole, _ in answers for _, valid in whole[-3:])


def test_a_cut_of_unknown_length(answers: Answers) -> None:
    whole = sorted(number for number in range(300) if seventh_is_missing(number))
    begun = list(itertools.chain(*answers[0][0]))
    for place, even in ((1, "drop"), (2, "pad")):
        parts = [of_rank[place][1] for of_rank in answers]
        assert len({len(part) for part in parts}) == 1, "all ranks take as many steps"
        rows = sorted(begun + [row for part in parts for row, valid in part if valid])
        if even == "pad":
            assert rows == whole
        else:
            assert len(rows) == len(set(rows)) > 0.8 * len(whole) and set(rows) <= set(whole)
        taken = [row for of_rank in answers for row, valid in of_rank[place][0] if valid]
        assert sorted(begun + taken + answers[0][place][2]) == whole


def test_files_are_listed_once(answers: Answers) -> None:
    assert sorted(itertools.chain(*(rows for rows, _ in answers))) == [*range(8), *range(10, 18)]
    assert answers[0][1].startswith("MissingError: missing/*.csv is not there")
    for _, error in answers[1:]:
        assert error.startswith("RankError: rank 0 of 4 has failed") and "MissingError: missing/*.csv" in error


def test_dimensions_of_a_mesh(answers: Answers) -> None:
    parts = [of_rank["dp"] for of_rank in answers]
    assert parts[0] == parts[1] and parts[2] == parts[3] and not {*parts[0]} & {*parts[2]}
    for of_rank in answers:
        assert of_rank["mesh"].startswith("ArgumentError: `group` must be a mesh of one dimension but has 2;")
        assert of_rank["text"].startswith("ArgumentTypeError: `group` must be a process group or a device mesh")
        (warning,) = of_rank["warnings"]
        assert warning.startswith("this job has a device mesh with the dimensions dp, tp, and without `group`")
    assert answers[3]["three"].startswith("ArgumentError: `group` must have this process as a member")
    assert len({len(json.loads(of_rank["three"])) for of_rank in answers[:3]}) == 1


def test_ledgers(answers: Answers) -> None:
    for place in range(2):
        rows = [row for of_rank in answers for row in of_rank[place][0]]
        counts = {"code": sum(row >= 1000 for row in rows), "web": sum(row < 1000 for row in rows)}
        assert [of_rank[place][1] for of_rank in answers] == [
            {name: {"rows": count, "pass_rows": count} for name, count in counts.items()}
        ] * len(answers)


def test_states_are_gathered(answers: Answers) -> None:
    for place, pipe in enumerate((streamed(), indexed(), indexed())):
        taken, states, goes_to_one = zip(*(of_rank[place] for of_rank in answers), strict=True)
        assert states[1:] == states[:-1] and all(goes_to_one)
        for ranks in (2, 4, 8):
            job = [fp.Loader(pipe, rank=rank, world_size=ranks, seed=5, even=None) for rank in range(ranks)]
            for loader in job:
                loader.load_state_dict(states[0])
            assert sorted(itertools.chain(*taken, *job)) == list(range(240))
    for rank, (*_, wrong_rank, error) in enumerate(answers):
        assert wrong_rank.startswith("ArgumentError: `rank` must be below the world size of 4 but got: 4\n")
        assert f"this loader is rank 0 of 2, and this process is rank {rank} of 4 in the process group" in error


def test_states_of_other_loaders_are_not_gathered(answers: Answers) -> None:
    for seeds, pipes in answers:
        assert seeds.startswith("StateError: the states of ranks 0, 1, 2 and rank 3 are not of one job, because their ")
        assert seeds.endswith("`seed` differs: 5 and 6")
        assert pipes.startswith(
            "StateError: the states of ranks 0, 2 and ranks 1, 3 are not of one job, because their "
        )


def test_places_alone_are_sent(answers: Answers) -> None:
    for whole, sent, gathered in answers:
        assert whole > 10_000 and sent < 500 and gathered < whole + 4 * 500


def test_checkpoints(answers: Answers) -> None:
    for name in ("indexed", "streamed"):
        taken = [row for of_rank in answers[:3] for row in of_rank[f"{name} taken"]]
        for count in (3, 2):
            rest = [row for of_rank in answers[:count] for row in of_rank[f"{name} on {count}"]]
            assert sorted(taken + rest) == list(range(240)), (name, count)
    for of_rank in answers[:3]:
        assert of_rank["mixture"].startswith("StateError: ")
        assert (
            "load what `state_dict()` returned" in of_rank["mixture"] and "gather_state(loader)" in of_rank["mixture"]
        )


def test_statistics(answers: Answers) -> None:
    numbers = [number for number in [*range(8), *range(10, 18)] if number != 3]
    rows, mean, std, few, none = answers[0]
    assert (
        rows == 15
        and few is True
        and none == "DataError: `fit`: the pipe has no rows, so its columns have no statistics"
    )
    assert np.allclose([mean, std], [np.mean(numbers), np.std(numbers)])
    assert answers == [answers[0]] * 4
