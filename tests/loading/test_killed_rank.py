"""A rank is killed: the others are told, the job starts again on fewer ranks, or many times on one store."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch.distributed  # noqa: F401, the ranks need it

SCRIPT = """
import json, os, signal, traceback
import torch.distributed as distributed
import feedpipe as fp

def start(job, rank, ranks):
    if pid := os.fork():
        return pid
    try:
        distributed.init_process_group("gloo", f"file://{os.getcwd()}/{job} store", rank=rank, world_size=ranks)
        train(rank, job == "resumed")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)  # the group of a job with a dead rank cannot be destroyed

def train(rank, resumed):
    pipe = fp.from_sequence(range(300)).filter(lambda number: number % 7).shuffle(window=8)
    loader = fp.Loader(pipe, seed=3)
    if resumed:
        with open("state.json") as file:
            loader.load_state_dict(json.load(file))
    taken, error = [], ""
    try:
        for number in loader:
            taken.append(number)
            if len(taken) == 5 and not resumed:
                state = fp.gather_state(loader)
                if rank == 0:
                    with open("state.json", "w") as file:
                        json.dump(state, file)
                distributed.barrier()
                if rank == 1:
                    with open("1.json", "w") as file:
                        json.dump([taken, "killed"], file)
                    os.kill(os.getpid(), signal.SIGKILL)
    except fp.errors.RankError as failure:
        taken, error = taken[:5], str(failure)
    with open(f"{'resumed' if resumed else ''}{rank}.json", "w") as file:
        json.dump([taken, error], file)

for job, ranks in (("first", 3), ("resumed", 2)):
    for pid in [start(job, rank, ranks) for rank in range(ranks)]:
        os.waitpid(pid, 0)
"""


def results(folder: Path, job: str, ranks: int) -> list[tuple[list[int], str]]:
    """What each rank of a job took, and its error."""
    name = "" if job == "first" else job
    return [tuple(json.loads((folder / f"{name}{rank}.json").read_text())) for rank in range(ranks)]


@pytest.mark.slow
def test_a_job_goes_on_without_a_killed_rank(tmp_path: Path, no_time_limit: None) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert (tmp_path / "resumed1.json").exists(), done.stderr
    first = results(tmp_path, "first", 3)
    assert first[1][1] == "killed"
    for rank in (0, 2):
        assert "has ended, or cannot be reached any more" in first[rank][1]
    resumed = results(tmp_path, "resumed", 2)
    assert [error for _, error in resumed] == ["", ""]
    assert len({len(taken) for taken, _ in resumed}) == 1
    rows = list(chain(*(taken for taken, _ in [*first, *resumed])))
    whole = [number for number in range(300) if number % 7]
    assert len(rows) == len(set(rows)) and set(rows) <= set(whole) and len(rows) > 0.9 * len(whole)


RESTARTS = """
import os, signal, sys, traceback
import torch.distributed as distributed
import feedpipe as fp

TRIES = 11
server = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

def start(number, rank):
    if pid := os.fork():
        return pid
    try:
        shared = distributed.TCPStore("127.0.0.1", server.port, is_master=False)  # that of an agent outlives a try
        own = distributed.PrefixStore(f"try {number}", shared)  # torch itself may hang on the keys of killed ranks
        distributed.init_process_group("gloo", store=own, rank=rank, world_size=2)
        distributed.distributed_c10d._get_default_store = lambda: shared
        train(rank, number)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)

def train(rank, number):
    loader = fp.Loader(fp.from_sequence(range(60)).filter(lambda row: row % 7).shuffle(window=8))
    taken = []
    for row in loader:
        if rank == 1 and number < TRIES - 1 and len(taken) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        taken.append(row)
    line = " ".join(map(str, [number, rank, *taken]))
    os.write(1, f"{line}{os.linesep}".encode())  # in one piece: the other rank writes, too
    os._exit(0)

for number in range(TRIES):
    first, second = (start(number, rank) for rank in range(2))
    _, status = os.waitpid(second, 0)
    if status:
        os.kill(first, signal.SIGKILL)  # as the agent of torchrun does
    os.waitpid(first, 0)
"""


@pytest.mark.slow
def test_a_job_starts_again_on_a_store_that_outlives_it(tmp_path: Path, no_time_limit: None) -> None:
    (tmp_path / "script.py").write_text(RESTARTS)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    lines = sorted(list(map(int, line.split())) for line in done.stdout.splitlines())
    assert [line[:2] for line in lines] == [[10, 0], [10, 1]], done.stderr
    taken = lines[0][2:] + lines[1][2:]
    assert len(lines[0]) == len(lines[1]) and len({*taken}) == len(taken) > 40
