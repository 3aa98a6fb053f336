"""Workers end with the program, however it ends. Ctrl-C is left to the program."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

import feedpipe as fp

BEGIN = """
import os, re, signal, sys
import feedpipe as fp

def say(what):
    os.write(1, f"{what}\\n".encode())

def nap(row):
    say("inside")
    signal.pause()

def hold(row):  # holds the interpreter's lock
    say("inside")
    re.match("(a+)+b", "a" * 60)

def work(row):
    for _ in range(1000):
        row += 1
    return row

def loader(function):
    return fp.Loader(fp.from_sequence(range(10**6)).map(function), workers=2)
"""


@pytest.fixture
def program(script, processes):
    """Starts a program, waits until it has printed some lines, and returns it and its processes."""
    started = []

    def start(source, *lines):
        process = script.start(BEGIN + source)
        started.append(process)
        for line in lines:
            assert process.stdout.readline() == f"{line}\n", process.stderr.read()
        return process, processes.below(process.pid)

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a process that outlives it would keep its output open
        process.communicate()


def killed(process, others, ended):
    process.kill()
    process.wait()
    ended(others)


@pytest.mark.parametrize("function", ["nap", "hold"])
def test_the_program_is_killed_while_workers_are_stuck(function, program, processes):
    process, others = program(f"list(loader({function}))", "inside", "inside")
    assert len(others) >= 2
    killed(process, others, processes.ended)


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", ["", "next(x); sys.exit(0)", "list(zip(x, range(9))); loader.close()", "x = list(zip(x, range(9)))"]
)
def test_the_program_ends_without_closing(end, script):
    assert script.run(BEGIN + f"loader = loader(work)\nx = iter(loader)\n{end}\n") == ""


@pytest.mark.slow
def test_workers_that_were_started_from_a_thread_outlive_it(script):
    source = """
import threading, warnings
warnings.simplefilter("error")
x = iter(loader(work))
thread = threading.Thread(target=next, args=[x])
thread.start()
thread.join()
print(next(x), sum(1 for _ in zip(x, range(200))))
"""
    assert script.run(BEGIN + source) == "1001 200\n"


LOOP = """
for row in loader(work):
    if row % 1000 == 0:
        say('on')
"""


@pytest.mark.slow
def test_interrupted_in_the_middle(program, processes):
    process, others = program(LOOP, "on")
    interrupted(process, others, processes.ended)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(4))
def test_interrupted_at_the_start(moment, program, processes):
    source = f"""
from feedpipe.services.processes.start import ForkServer
moment = {moment}
once = ForkServer.start
def start(*arguments):
    global moment
    moment -= 1
    if not moment: say('now')
    return once(*arguments)
ForkServer.start = start
say('begin')
x = loader(work)
if not moment: say('now')
for row in x:
    if moment > 0: say('now')
"""
    process, others = program(source, "begin", "now")
    interrupted(process, others, processes.ended)


def interrupted(process, others, ended):
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGINT
    # One process says so. Its traceback may have two parts, if the signal came while an exception was handled.
    assert err.splitlines().count("KeyboardInterrupt") == 1 and err.endswith("KeyboardInterrupt\n"), err
    ended(others)


def test_an_interrupt_before_the_workers_are_all_there(monkeypatch):
    from ...support.services import ForkServer

    once, count = ForkServer.start, []

    def start(self, *arguments):
        count.append(1)
        if len(count) == 2:
            raise KeyboardInterrupt
        return once(self, *arguments)

    monkeypatch.setattr(ForkServer, "start", start)
    with fp.Loader(fp.from_sequence(range(40)), workers=3) as loader:
        with pytest.raises(KeyboardInterrupt):
            list(loader)
        assert list(loader) == list(range(40))


def test_after_an_interrupt_the_next_epoch_has_new_processes(tmp_path: Path):
    owner, done = os.getpid(), tmp_path / "done"

    def interrupts(x: int) -> tuple[int, int]:
        if x == 5 and not done.exists():
            done.touch()
            os.kill(owner, signal.SIGINT)
            signal.pause()
        return x, os.getpid()

    before: set[int] = set()
    # An old process would stay silent.
    with fp.Loader(fp.from_sequence(range(8)).map(interrupts), fp.MultiProcess(1, timeout=300)) as loader:
        with pytest.raises(KeyboardInterrupt):
            before.update(pid for _, pid in loader)
        rows, after = zip(*loader, strict=True)
    assert rows == tuple(range(8)) and before.isdisjoint(after)
