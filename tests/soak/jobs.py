"""`python -m tests.soak.jobs COUNT SEED`: kills and signals to every process of a job, until it has sent that many.

A job has ranks, each with a fork server, workers, and a dispatcher or threads. It writes the rows of each step with the
state after them, as one line. A rank that ends early starts again from its last line, or, after all ranks have ended,
the job goes on with other ranks. In the end the rows are those of the pipe, once each, and nothing is left: no
process, no temporary file, no folder in shared memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import feedpipe as fp

HANG_SECONDS = 240.0
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
SHARDS = 6
SIGNALLED = 8
"""Attempts of a job that get signals; the next one must end well."""


def numbers(count: int) -> fp.Pipe[int]:
    return fp.from_sequence(range(count))


def work(row: int) -> int:
    time.sleep(0.002)  # so that signals come while it runs
    return row


PIPES: dict[str, Callable[[], fp.Pipe[Any]]] = {
    "indexed": lambda: numbers(400).shuffle().map(work).batch(7),
    "window and tails": lambda: numbers(400).filter(lambda row: row % 10).map(work).shuffle(window=20).batch(6),
    "dispatched": lambda: fp.from_iterable(range(400)).dispatch().map(work).batch(4),
    "ahead": lambda: numbers(400).filter(lambda row: row % 10).map(work, concurrency=4).prefetch(3).batch(4),
    "cached": lambda: numbers(400).map(work).cache().shuffle().batch(5),
}


def train(kind: str, folder: Path, rank: int, ranks: int, attempt: int, handles: bool) -> None:
    """One rank, as a user's script has it. With handlers, a signal ends it after one more step and its checkpoint."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT) if handles else ():
        signal.signal(number, lambda number, frame: stopping.append(number))
    state = json.loads((folder / "states.json").read_text())[rank]
    # The values of `even` that ranks agree on need a process group; with None each row comes.
    with fp.Loader(PIPES[kind](), workers=2, seed=3, shards=SHARDS, rank=rank, world_size=ranks, even=None) as loader:
        if state:
            loader.load_state_dict(state)
        log = os.open(folder / f"{attempt}-{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, json.dumps([[], loader.state_dict()]).encode() + b"\n")  # of a rank that has taken nothing, too
        for batch in loader if loader.state_dict()["epoch"] == 0 else ():
            os.write(log, json.dumps([batch, loader.state_dict()]).encode() + b"\n")
            if stopping:
                sys.exit(3)
        os.write(log, json.dumps([[], loader.state_dict()]).encode() + b"\n")


class Attempt:
    """The ranks of a job, from their start to their end."""

    def __init__(self, kind: str, folder: Path, ranks: int, number: int, handles: bool) -> None:
        self.folder, self.number = folder, number
        arguments = ["rank", kind, str(folder), str(ranks), str(number), str(int(handles))]
        self.errors = [(folder / f"{number}-{rank}.err").open("w") for rank in range(ranks)]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.soak.jobs", *arguments, str(rank)],
                stderr=errors,
                env={**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )
            for rank, errors in enumerate(self.errors)
        ]

    def lines(self, rank: int) -> list[Any]:
        """The steps of a rank; a line without an end is of a step that a kill has cut, and is no step."""
        path = self.folder / f"{self.number}-{rank}.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def steps(self) -> int:
        return sum(len(self.lines(rank)) for rank in range(len(self.processes)))

    def members(self) -> list[int]:
        """All processes of all ranks."""
        return [pid for process in self.processes for pid in session(process.pid)]

    def runs(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def end(self) -> str:
        """Wait until all processes have ended; an error names those that stay."""
        end = time.monotonic() + HANG_SECONDS
        while self.members() if not self.runs() else True:
            if time.monotonic() > end:
                return f"these stay: {[(pid, command(pid)) for pid in self.members()]}"
            time.sleep(0.02)
        for errors in self.errors:
            errors.close()
        return ""

    def kill(self) -> None:
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def session(leader: int) -> Iterator[int]:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                yield int(pid)


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200]
    return ""


def role(attempt: Attempt, pid: int) -> str:
    """Who a process of a job is: a rank, its fork server, or a process that this has started."""
    leaders = {process.pid for process in attempt.processes}
    if pid in leaders:
        return "rank"
    with contextlib.suppress(OSError):
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return "server" if parent in leaders else "worker or dispatcher"
    return "gone"


def disturb(attempt: Attempt, draws: random.Random, sent: Counter[str]) -> None:
    """Send a signal to one process of the job, or to all of them."""
    members = attempt.members()
    by_role: dict[str, list[int]] = {}
    for pid in members:
        by_role.setdefault(role(attempt, pid), []).append(pid)
    by_role.pop("gone", None)
    if not by_role:
        return
    number = draws.choice(SIGNALS)
    if draws.random() < 0.25:
        chosen, whom = members, "all"
    else:
        whom = draws.choice(sorted(by_role))
        chosen = [draws.choice(sorted(by_role[whom]))]
    for pid in chosen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    sent[f"{number.name} to {whom}"] += 1


def abandoned_folders() -> list[str]:
    """Folders in shared memory whose owner does not live: the next cache removes them."""
    with contextlib.closing(fp.Loader(numbers(10).cache())) as loader:
        list(loader)
    found: list[str] = []
    for path in Path("/dev/shm").glob("feedpipe-*/.lock"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(str(path.parent))
    return found


def run(kind: str, draws: random.Random, sent: Counter[str], ends: Counter[str]) -> str:
    """Run one job to its end, with signals; return what is wrong with it."""
    expected = sorted(row for batch in PIPES[kind]() for row in batch)
    got: list[int] = []
    ranks, number, handles = draws.choice([1, 2]), 0, draws.random() < 0.5
    states: list[Any] = [None] * ranks
    """What each rank goes on from: its own state, those of all ranks of another division, or none."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "tmp").mkdir()
        while True:
            (folder / "states.json").write_text(json.dumps(states))
            attempt = Attempt(kind, folder, ranks, number, handles)
            try:
                for _ in range(draws.choice([1, 2, 4, 8]) if number < SIGNALLED else 0):
                    moment = time.monotonic() + draws.uniform(0, 1.5)
                    steps = attempt.steps() + draws.randrange(8)
                    early = draws.random() < 0.2  # while processes start
                    while attempt.runs() and (time.monotonic() < moment if early else attempt.steps() < steps):
                        time.sleep(0.005)
                    disturb(attempt, draws, sent)
                if stays := attempt.end():
                    return stays
            finally:
                attempt.kill()
            codes = [process.returncode for process in attempt.processes]
            for rank, code in enumerate(codes):
                error = (folder / f"{number}-{rank}.err").read_text().strip().split("\n")
                last = next((line for line in reversed(error) if line and not line.startswith(" ")), "")
                ends[f"{code}: {last[:70]}"] += 1
                # An interrupt while NumPy's C code imports arrives as an ImportError: the rank has not begun.
                begun = bool(attempt.lines(rank)) or number == SIGNALLED
                if code == 1 and begun and "the process that starts workers" not in "\n".join(error):
                    return f"rank {rank} has failed: " + "\n".join(error[-30:])
            lines = [attempt.lines(rank) for rank in range(ranks)]
            got += [row for of_rank in lines for batch, _ in of_rank for row in batch]
            if not any(codes):
                break
            if number == SIGNALLED:
                return f"the ranks end with {codes}, and no signal was sent"
            states = [steps[-1][1] if steps else old for steps, old in zip(lines, states, strict=True)]
            if all(isinstance(state, dict) and state["epoch"] == 0 for state in states):  # none has finished
                ranks = draws.choice([1, 2, 3])
                states = [states] * ranks
            number += 1
        if left := list((folder / "tmp").iterdir()):
            return f"temporary files are left: {left}"
    if folders := abandoned_folders():
        return f"folders in shared memory are left: {folders}"
    if sorted(got) != expected:
        counts = Counter(got)
        lost = [row for row in expected if row not in counts]
        return f"lost: {lost}; repeated: {[row for row, count in counts.items() if count > 1]}"
    return ""


def main() -> int:
    match sys.argv[1:]:
        case ["rank", kind, folder, ranks, attempt, handles, rank]:
            train(kind, Path(folder), int(rank), int(ranks), int(attempt), handles == "1")
            return 0
        case [count, seed]:
            draws = random.Random(int(seed))
        case arguments:
            sys.exit(f"{arguments} are not the arguments of this command:\n\n{__doc__}")
    sent: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    jobs = failed = 0
    while sent.total() < int(count):
        kind = draws.choice(sorted(PIPES))
        jobs += 1
        if wrong := run(kind, draws, sent, ends):
            failed += 1
            print(f"job {jobs}, {kind}: {wrong}", flush=True)
        if jobs % 5 == 0:
            print(f"{jobs} jobs, {sent.total()} signals, {failed} failed", flush=True)
    print(f"{jobs} jobs, {sent.total()} signals: {dict(sent)}; ends: {dict(ends)}; {failed} failed", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
