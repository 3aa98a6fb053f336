"""A rank is killed, the others are told, and the job starts again on fewer ranks from the state that it gathered."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

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
