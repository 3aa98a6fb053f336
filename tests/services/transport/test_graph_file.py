"""Graphs travel to other processes; in each test, the reader is an interpreter of its own."""

from __future__ import annotations

import importlib.util
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
from ...support.services import libraries_of, write_graph_file
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


def libraries(function):
    """The libraries that a worker with a function imports, as the file of its graph tells them."""
    pipe = fp.from_sequence([0]).map(function)
    fd = write_graph_file((pipe, None), pipe)
    try:
        return libraries_of(fd)
    finally:
        os.close(fd)


def test_the_file_tells_which_large_libraries_its_functions_need(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "plain_module.py").write_text("import json, numpy\ndef function(row): pass\n")
    (tmp_path / "torch_module.py").write_text("from torch.nn.functional import relu\ndef function(row): pass\n")
    (tmp_path / "user_module.py").write_text("import torch_module\ndef function(row): pass\n")
    modules = [importlib.import_module(name) for name in ("plain_module", "torch_module", "user_module")]
    monkeypatch.setattr(modules[0], "itself", modules[0], raising=False)
    try:
        assert [libraries(module.function) for module in modules] == [
            [],
            ["torch.nn.functional"],
            ["torch.nn.functional"],
        ]
    finally:
        for module in modules:
            del sys.modules[module.__name__]
    tensor = torch.ones(3)
    assert libraries(lambda row: tensor) == ["torch"] and "torch" in libraries(torch.tensor)
    assert libraries(torch.nn.Identity()) == ["torch.nn.modules.linear"]
    assert libraries(lambda row: np.ones(row)) == []
