"""A module whose top level runs a loader with workers runs once; workers of workers come to an end."""

from __future__ import annotations

import re

import pytest

# Ends all processes of the script once the module was imported more often than any test allows.
GUARD = """
import os, signal
with open("imports", "a") as file:
    file.write("x")
if os.path.getsize("imports") > 10:
    os.killpg(0, signal.SIGKILL)
"""
MODULE = (
    GUARD
    + """
import feedpipe as fp

class Box:
    def __init__(self, row):
        self.row = row

def inc(row):
    return Box(row + 1)

pipe = fp.from_sequence(range(3)).map(inc)
with fp.Loader(pipe, workers=2) as loader:
    print([type(box) is Box and box.row for box in loader])
"""
)
ROWS = "[1, 2, 3]\n"


@pytest.fixture(name="modules")
def _modules(script):
    """Writes modules; gives a function that tells how often those with a guard were imported."""

    def write(modules):
        for name, source in modules.items():
            file = script.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(source)
        return lambda: (script.folder / "imports").stat().st_size

    return write


def test_a_module_whose_top_level_runs_a_loader(script, modules):
    imports = modules({"mod.py": MODULE})
    assert script.said(script.command("-c", "import mod")) == ROWS
    assert imports() == 1


def failure(process):
    """What a program that fails writes to stderr."""
    out, err = process.communicate()
    assert process.returncode == 1 and out == "", (process.returncode, out, err)
    return err


def test_a_circle_of_modules_is_an_error_that_names_the_line(script, modules):
    helper = "def inc(row):\n    return row + 1\n\nimport mod\n"
    run = "from helper import inc\nimport feedpipe as fp\n\n"
    run += "list(fp.Loader(fp.from_sequence(range(3)).map(inc), workers=2))\n"
    imports = modules({"helper.py": helper, "mod.py": run + GUARD, "guarded.py": GUARD})
    error = failure(script.command("-c", "import guarded, mod"))
    file = re.escape(str(script.folder / "mod.py"))
    assert re.search(f"cannot begin, reading its pipe failed with WorkerError: importing `mod` .* at {file}:4, ", error)
    assert imports() == 1


def test_a_function_that_imports_such_a_module_is_an_error_that_names_the_line(script, modules):
    imports = modules({"mod.py": MODULE})
    source = """
import feedpipe as fp

def lazy(row):
    import mod

list(fp.Loader(fp.from_sequence(range(3)).map(lazy), workers=2))
"""
    error = failure(script.start(source))
    line = 1 + MODULE[: MODULE.index("    print")].count("\n")
    assert re.search(rf"WorkerError: importing `mod` starts workers at .*mod\.py:{line}, and a worker", error)
    assert imports() <= 2


def test_workers_of_workers_end_with_the_third_generation(script, modules):
    imports = modules({})
    source = f"""
import feedpipe as fp

def nest(row):
    {GUARD.strip().replace(chr(10), chr(10) + "    ")}
    with fp.Loader(fp.from_sequence([row]).map(nest), workers=1) as loader:
        return list(loader)

nest(0)
"""
    error = failure(script.start(source))
    assert "WorkerError: this process is a worker of a worker, 3 below the program, and starts no workers" in error
    assert imports() == 4
