"""`python -m tests.soak.interrupts SECONDS SEED [KIND]`: Ctrl-C at random moments, for each kind of run.

Each must arrive as a KeyboardInterrupt: none lost, no other error, no hang, no fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import feedpipe as fp

LATEST_SECONDS = 0.15
"""An interrupt comes at a random moment of this time, while loaders begin, run and end all the time."""
PATIENCE_SECONDS = 1.0
"""One that has not arrived by then is lost."""
HANG_SECONDS = 60.0


def numbers() -> fp.Pipe[int]:
    return fp.from_sequence(range(3000)).filter(lambda row: True)


def arrays(size: int) -> fp.Pipe[Any]:
    return numbers().map(lambda row: np.full(size, row))


async def pause(row: int) -> int:
    await asyncio.sleep(0.0005)
    return row


def lines(folder: Path) -> fp.Pipe[Any]:
    if not any(folder.iterdir()):
        for number in range(20):
            (folder / f"{number}.txt").write_text("line\n" * 50)
    return fp.read_lines(folder).repeat(50).shuffle(window=50)


def forked() -> fp.Pipe[Any]:
    first, second = numbers().fork()
    return first.zip(second)


KINDS: dict[str, tuple[Callable[[Path], fp.Pipe[Any]], Callable[[], Any], bool]] = {
    # The pipe, the service, and whether loaders are closed or dropped.
    "plain": (lambda folder: arrays(2000).batch(4).collate(), fp.InProcess, True),
    "cache": (lambda folder: arrays(2000).cache().map(lambda row: row.sum()), fp.InProcess, True),
    "cache in a folder": (lambda folder: arrays(2000).cache(folder / str(time.time_ns())), fp.InProcess, True),
    "prefetch": (lambda folder: numbers().prefetch(3).batch(4), fp.InProcess, True),
    "calls": (lambda folder: numbers().map(abs, concurrency=8).batch(4), fp.InProcess, True),
    "async": (lambda folder: numbers().map(pause, concurrency=8, on_error="skip").batch(4), fp.InProcess, True),
    "fork": (lambda folder: forked().batch(4), fp.InProcess, True),
    "lines": (lambda folder: lines(folder).batch(4), fp.InProcess, True),
    "threads": (lambda folder: arrays(200).batch(4), lambda: fp.Threads(2), True),
    "threads, async": (lambda folder: numbers().map(pause, concurrency=8), lambda: fp.Threads(2), True),
    "workers": (lambda folder: arrays(2000).batch(4), lambda: fp.MultiProcess(2), True),
    "dropped cache": (lambda folder: arrays(2000).cache(), fp.InProcess, False),
    "dropped lines": (lambda folder: lines(folder).batch(4), fp.InProcess, False),
    "dropped threads": (lambda folder: arrays(200).batch(4), lambda: fp.Threads(2), False),
}


def soak(kind: str, seconds: float, seed: int) -> int:
    """Interrupt runs of one kind for some time; return 1 unless each interrupt has arrived."""
    warnings.simplefilter("ignore")
    make, service, closes = KINDS[kind]
    draws = random.Random(seed)
    refused: Counter[str] = Counter()
    sys.unraisablehook = lambda raised: refused.update([f"{raised.exc_value!r} dropped in {raised.object!r:.90}"])
    sent = threading.Event()

    def interrupt(after: float) -> None:
        time.sleep(after)
        sent.set()
        os.kill(os.getpid(), signal.SIGINT)

    def run_until_interrupted(pipe: fp.Pipe[Any]) -> None:
        deadline = float("inf")
        while time.monotonic() < deadline:
            loader = fp.Loader(pipe, service())
            for number, _ in enumerate(loader):
                if number > draws.choice([0, 5, 300]):
                    break
            if closes:
                loader.close()
            del loader
            if sent.is_set():
                deadline = min(deadline, time.monotonic() + PATIENCE_SECONDS)
        refused["lost"] += 1

    count = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        pipe = make(Path(folder))
        with fp.Loader(pipe, service()) as loader:  # imports NumPy's and Arrow's modules, whose C code drops interrupts
            next(iter(loader))
        while time.monotonic() < end:
            count += 1
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            sent.clear()
            thread = threading.Thread(target=interrupt, args=(draws.uniform(0, LATEST_SECONDS),))
            try:
                thread.start()
                run_until_interrupted(pipe if draws.random() < 0.7 else make(Path(folder)))
            except KeyboardInterrupt:
                pass
            except BaseException as error:
                refused[f"{error!r:.150}"] += 1
            while thread.is_alive():
                with contextlib.suppress(KeyboardInterrupt):  # it came after the run had failed
                    thread.join()
        faulthandler.cancel_dump_traceback_later()
    print(f"{kind}: {count} interrupts, {dict(refused) or 'all arrived'}", flush=True)
    return int(bool(refused))


def main() -> int:
    seconds, seed, *kinds = sys.argv[1:]
    if kinds:
        return soak(kinds[0], float(seconds), int(seed))
    failed = []
    for kind in KINDS:
        command = [sys.executable, "-m", "tests.soak.interrupts", seconds, seed, kind]
        if (status := subprocess.run(command, check=False).returncode) != 0:
            failed.append(f"{kind}: exit status {status}")
    print("\n".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
