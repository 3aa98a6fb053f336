"""Graphs travel to other processes; in each test, the reader is an interpreter of its own."""

from __future__ import annotations

import gc
import importlib.util
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError
from feedpipe.extensions import Context, Plan

from ...support.core import MAX_DEPTH
from ...support.services import PlanArguments, class_of, libraries_of, read_graph_file, write_graph_file
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


def test_the_worker_receives_the_numbers_of_classes() -> None:
    class Example:
        pass

    class ReachedError(Exception):
        pass

    def make(x: int) -> Example:
        if x > 5:
            raise ReachedError
        return Example()

    pipe = fp.from_sequence([1]).map(make)
    output = other_process(
        (pipe, None),
        "row = list(content[0])[0]\nprint({c.__name__: n for c, n in classes.items()}, classes[type(row)])",
    )
    numbers = {class_of(number): name for name, number in eval(output.rpartition(" ")[0]).items()}
    assert numbers == {Example: "Example", ReachedError: "ReachedError"}
    assert class_of(int(output.rpartition(" ")[2])) is Example
    # The same class keeps its number.
    assert (
        other_process((pipe, None), "print({c.__name__: n for c, n in classes.items()})") == output.rpartition(" ")[0]
    )


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


MODULE = """
import collections
class Thing:
    pass
Known = collections.namedtuple("Known", "x")
def helper(x):
    return Known(x + 1)
def function(x):
    return helper(x), type(Thing()).__name__
"""


def test_a_module_loaded_by_path_travels_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded.py").write_text(MODULE)
    monkeypatch.setitem(sys.modules, "odd name", ModuleType("odd name"))
    module: Any = load(tmp_path / "loaded.py", "odd name")
    pipe = fp.from_sequence([1]).map(module.function).map(lambda row: (row, module.function(5)[0]))
    output = other_process(pipe, "print(list(content), sorted(c.__name__ for c in classes))")
    assert output == f"{list(pipe)} ['Known', 'Thing']"
    pickle.dumps(module.Thing)  # pickled by name again, as before the file was written


def test_a_module_from_exec_travels_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("synthetic")
    exec(MODULE, vars(module))
    monkeypatch.setitem(sys.modules, "synthetic", module)
    pipe = fp.from_sequence([1]).map(module.function)
    assert other_process(pipe, "print(list(content))") == str(list(pipe))


def test_a_module_that_was_moved_since_travels_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "moved_since.py").write_text(MODULE)
    monkeypatch.setitem(sys.modules, "moved_since", ModuleType("moved_since"))
    module: Any = load(tmp_path / "moved_since.py", "moved_since")
    pipe = fp.from_sequence([1]).map(module.function)
    code = "print(list(content), 'moved_since' in sys.modules)"
    assert other_process(pipe, code) == f"{list(pipe)} True"
    (tmp_path / "moved_since.py").rename(tmp_path / "other_process.py")
    assert other_process(pipe, code) == f"{list(pipe)} False"


def test_importable_functions_travel_by_name() -> None:
    pipe = fp.from_sequence([[1.5]]).map(np.mean).map(os.path.abspath).map(textwrap.dedent)
    assert other_process(pipe, "print(content.op.function.__module__, classes)") == "textwrap {}"


def test_a_long_chain_fits() -> None:
    pipe: Any = fp.from_sequence([0])
    for _ in range(MAX_DEPTH - 1):
        pipe = pipe.map(abs)
    code = "from feedpipe.core.graph import walk\nprint(sum(1 for _ in walk(content)), type(content).__name__)"
    assert other_process(pipe, code) == f"{MAX_DEPTH} Pipe"


def test_a_node_that_is_read_twice_stays_one_node() -> None:
    first = fp.from_sequence([1, 2])
    pipe = first.map(abs).zip(first)
    code = "print(content.inputs[0].inputs[0] is content.inputs[1], list(content), content.call_site.line)"
    assert pipe.call_site is not None
    assert other_process(pipe, code) == f"True [(1, 1), (2, 2)] {pipe.call_site.line}"


@pytest.mark.parametrize("shards", [None, 6])
def test_a_plan_travels_as_its_arguments(shards: int | None) -> None:
    pipe = fp.from_sequence(range(10)) if shards is None else fp.from_iterable([1, 2, 3]).shuffle(window=2)
    plan = Plan(pipe, seed=3, rank=1, world_size=2, shards=shards)
    arguments = PlanArguments.of(plan)
    code = """
    root, arguments = content
    plan = arguments.plan(root)
    print([getattr(plan, name) for name in ('seed', 'rank', 'world_size', 'shards', 'indexed')])
    """
    assert other_process((plan.root, arguments), code) == str([3, 1, 2, shards or 0, shards is None])


def test_no_room_is_no_fault_of_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    pipe = fp.from_arrays({"x": np.arange(10)})
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        write_graph_file(pipe, pipe)


def test_large_buffers_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:1000], at))
    pipe = fp.from_arrays({"x": np.arange(10_000)})
    assert other_process(pipe, "print(int(content.op.arrays['x'].sum()))") == str(sum(range(10_000)))


def test_the_descriptor_may_be_closed_and_nothing_is_left() -> None:
    pipe = fp.from_sequence([f"/data/{i}.jpg" for i in range(5000)])
    gc.collect()  # what other tests have left would be closed below
    before = os.listdir("/proc/self/fd")
    fd = write_graph_file(pipe, pipe)
    content: Any
    content, _ = read_graph_file(fd)
    os.close(fd)
    assert content.op.rows(content._stage(), np.array([3]), Context()) == ["/data/3.jpg"]
    del content
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == len(before)
    with pytest.raises(ArgumentTypeError):
        write_graph_file(threading.Lock(), pipe)
    assert len(os.listdir("/proc/self/fd")) == len(before)


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
