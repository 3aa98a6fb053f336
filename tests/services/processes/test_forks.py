"""A program forks: the child has a copy of the loader, and the workers still belong to the parent."""

from __future__ import annotations

import os
import signal

import pytest

FORKED = """
import os, sys
import feedpipe as fp
from feedpipe.errors import LoaderError

loader = fp.Loader(fp.from_sequence(range(60)), workers=2)
x = iter(loader)
got = [next(x), next(x)]

def ends():
    pass

def closes_it():
    loader.close()

def drops_it():
    global loader, x
    del loader, x

def iterates_it():
    try: list(loader)
    except LoaderError as error: assert "make a loader in this one" in str(error)
    else: assert False

def goes_on_with_it():
    try: list(x)
    except LoaderError as error: assert "make a loader in this one" in str(error)
    else: assert False

def makes_its_own():
    with fp.Loader(fp.from_sequence(range(9)), workers=2) as own: assert list(own) == list(range(9))

for child in (ends, closes_it, drops_it, iterates_it, goes_on_with_it, makes_its_own):
    pid = os.fork()
    if not pid:
        child()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, child
assert [*got, *x] == list(range(60))
assert list(loader) == list(range(60))
"""


@pytest.mark.slow
def test_children_of_a_program(script):
    # With warnings, which an object may issue when it is dropped.
    assert script.said(script.command("-X", "dev", "-c", FORKED)) == ""


def test_a_child_that_outlives_its_parent_keeps_no_worker(script, processes):
    source = """
import os, signal
import feedpipe as fp

x = iter(fp.Loader(fp.from_sequence(range(60)), workers=2))
next(x)
if not os.fork():
    os.write(1, f"{os.getpid()}\\n".encode())
    signal.pause()
os.wait()
"""
    process = script.start(source)
    child = int(process.stdout.readline())
    others = [one for one in processes.below(process.pid) if one.pid != child]
    assert len(others) >= 2
    process.kill()
    process.wait()
    try:
        processes.ended(others)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


STARTED = {
    "forks": "os.fork() or signal.pause()",
    "starts": 'os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})',
}


@pytest.mark.slow
@pytest.mark.parametrize("started", STARTED)
def test_a_process_that_a_user_s_function_starts_does_not_hide_the_death_of_its_worker(started, script):
    source = f"""
import os, signal, warnings
import feedpipe as fp
warnings.simplefilter("ignore")

def leave(row):
    if row == 3 and not os.path.exists("flag"):
        open("flag", "w").close()
        {STARTED[started]}
        os.kill(os.getpid(), 9)
    return row

with fp.Loader(fp.from_sequence(range(60)).map(leave), workers=2) as loader:
    assert list(loader) == list(range(60))
"""
    process = script.start(source)
    try:
        assert process.wait(timeout=300) == 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_program_that_ignores_the_end_of_its_children(script):
    source = """
import os, re, signal, warnings
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import feedpipe as fp

def die(row):
    if row == 5 and not os.path.exists("flag"):
        open("flag", "w").close()
        os.kill(os.getpid(), 9)
    return row

with fp.Loader(fp.from_sequence(range(60)).map(die), workers=2) as loader:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(loader) == list(range(60))
    (warning,) = caught
    print(re.search(r"SIGKILL|has ended", str(warning.message))[0])
"""
    # The fork server can wait for its children in spite of that.
    assert script.run(source) == "SIGKILL\n"
