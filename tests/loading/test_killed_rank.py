"""A rank is killed, the others are told, and the job starts again on fewer ranks from the state that it gathered."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import torch.distributed  # noqa: F401, the ranks need it

SCRIPT = """
import json, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others when a rank dies; they end by themselves here
import torch.distributed as distributed
import feedpipe as fp

distributed.init_process_group("gloo")
rank, resumed = distributed.get_rank(), sys.argv[1] == "resumed"
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
os._exit(0)  # the group of a job with a dead rank cannot be destroyed
"""


def run(folder: Path, ranks: int, word: str) -> list[tuple[list[int], str]]:
    """The results of a job that `torchrun` starts."""
    (folder / "script.py").write_text(SCRIPT)
    arguments = ["--standalone", f"--nproc-per-node={ranks}", "script.py", word]
    command = [sys.executable, "-m", "torch.distributed.run", *arguments]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    name = "" if word == "first" else word
    return [tuple(json.loads((folder / f"{name}{rank}.json").read_text())) for rank in range(ranks)]


def test_a_job_goes_on_without_a_killed_rank(tmp_path: Path, no_time_limit: None) -> None:
    first = run(tmp_path, 3, "first")
    assert first[1][1] == "killed"
    for rank in (0, 2):
        assert "has ended, or cannot be reached any more" in first[rank][1]
    resumed = run(tmp_path, 2, "resumed")
    assert [error for _, error in resumed] == ["", ""]
    assert len({len(taken) for taken, _ in resumed}) == 1
    rows = list(chain(*(taken for taken, _ in [*first, *resumed])))
    whole = [number for number in range(300) if number % 7]
    assert len(rows) == len(set(rows)) and set(rows) <= set(whole) and len(rows) > 0.9 * len(whole)
