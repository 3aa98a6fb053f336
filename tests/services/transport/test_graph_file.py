"""Graphs travel to other processes; in each test, the reader is an interpreter of its own."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feedpipe as fp

from ...support.core import MAX_DEPTH
from ...support.services import early_imports, imports_of, write_graph_file
from .graph_reader import READ, other_process


def run_script(tmp_path: Path, code: str, *, piped: bool = False) -> list[str]:
    """Runs a user's script: from a file, or from standard input."""
    (tmp_path / "other_process.py").write_text(
        "import os, subprocess, sys\n"
        "from feedpipe.services.transport.graph_file import read_graph_file, write_graph_file\n"
        f"READ = {READ!r}\n"
        "def other_process(pipe, code):\n"
        "    fd = write_graph_file((pipe, None), pipe)\n"
        "    code = READ.format(path=sys.path, fd=fd) + 'pipe, init = content\\n' + code\n"
        "    subprocess.run([sys.executable, '-c', code], pass_fds=[fd], check=True)\n"
        "    os.close(fd)\n"
    )
    code = textwrap.dedent(code)
    (tmp_path / "train.py").write_text(code)
    arguments = ["-"] if piped else ["train.py"]
    done = subprocess.run(
        [sys.executable, *arguments], input=code, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SCRIPT = """
import dataclasses, enum, functools, typing
from other_process import other_process
import feedpipe as fp

print("main runs")
SCALE = 3

class Base:
    def scaled(self, x):
        return x * SCALE

@dataclasses.dataclass(frozen=True)
class Example(Base):
    x: int

class Pair(typing.NamedTuple):
    a: int
    b: int

class Colour(enum.Enum):
    RED = 1

class Wrong(Exception):
    pass

@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def helper(x):
    if x < 0:
        raise Wrong(x)
    return Pair(x, fib(x)), Colour.RED

def make(x, offset=1):
    class Local(Base):
        pass
    return Example(x + offset), helper(x), Local().scaled(x)

pipe = fp.from_sequence([1, 2, 10]).map(make).map(lambda row: (*row, SCALE))
for row in pipe:
    print(row, flush=True)
other_process(pipe, "for row in pipe: print(row)\\nprint(sorted(cls.__name__ for cls in classes))")
"""


@pytest.mark.parametrize("piped", [False, True])
def test_a_script_without_a_guard_travels_by_value(tmp_path: Path, piped: bool) -> None:
    lines = run_script(tmp_path, SCRIPT, piped=piped)
    assert lines.count("main runs") == 1
    remote, classes, local = lines[-4:-1], lines[-1], lines[-7:-4]
    assert remote == local
    assert classes == "['Base', 'Colour', 'Example', 'Pair', 'Wrong']"


def test_a_long_chain_fits() -> None:
    pipe: Any = fp.from_sequence([0])
    for _ in range(MAX_DEPTH - 1):
        pipe = pipe.map(abs)
    code = "from feedpipe.core.graph import walk\nprint(sum(1 for _ in walk(content)), type(content).__name__)"
    assert other_process(pipe, code) == f"{MAX_DEPTH} Pipe"


def imports(function):
    """The modules that a worker with a function imports, as the file of its graph tells them."""
    pipe = fp.from_sequence([0]).map(function)
    fd = write_graph_file((pipe, None), pipe)
    try:
        return {
            name for name in imports_of(fd) if name.partition(".")[0] not in ("builtins", "feedpipe", "cloudpickle")
        }
    finally:
        os.close(fd)


def of_a_script(code, **names):
    """A value of a module that other processes cannot import."""
    return eval(code, {"__name__": "script", **names})


def test_the_file_tells_which_modules_its_functions_need(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "user_module.py").write_text("import csv, numpy\ndef function(row): pass\n")
    module = importlib.import_module("user_module")
    try:
        assert imports(module.function) == {"user_module"}
        assert imports(of_a_script("lambda row: module.function(row)", module=module)) == {"user_module"}
    finally:
        del sys.modules["user_module"]
    assert imports(of_a_script("lambda row: json.dumps(row)", json=json)) == {"json"}
    assert imports(of_a_script("lambda row: row")) == set()


def test_so_does_an_operator_whose_workers_import_later():
    pipe = fp.from_sequence([]).decode(resize=8, fast=True)
    fd = write_graph_file((pipe, None), pipe)
    assert {"PIL.Image", "simplejpeg", "torch"} < {*imports_of(fd)}
    os.close(fd)


def test_tensors_need_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(3)
    assert "torch" in imports(lambda row: tensor) & imports(torch.tensor)
    assert "torch.nn.modules.linear" in imports(torch.nn.Identity())


def test_some_are_known_before_the_graph_is_written(monkeypatch):
    dumps = of_a_script("type('Dumps', (), {'__call__': lambda self, row: json.dumps(row)})()", json=json)
    assert {*early_imports([dumps, csv.reader])} == {"json", "_csv"}
    assert {*early_imports([of_a_script("lambda row: np.ones(row)", np=np)])} == {"numpy"}
    assert early_imports([json.dumps]) == {"json": json.__file__}
    monkeypatch.setattr(json.__spec__, "_initializing", True, raising=False)
    assert early_imports([json.dumps]) == {}
