"""Graphs travel to other processes; in each test, the reader is an interpreter of its own."""

from __future__ import annotations

import gc
import importlib.util
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp
from feedpipe.core.context import Context
from feedpipe.core.contract import MAX_DEPTH
from feedpipe.errors import ArgumentTypeError
from feedpipe.plan.plan import Plan
from feedpipe.services.plan_arguments import PlanArguments
from feedpipe.services.transport.class_registry import class_of
from feedpipe.services.transport.graph_file import read_graph_file, write_graph_file

READ = """
import sys
sys.path[:] = {path!r}
from feedpipe.services.transport.graph_file import read_graph_file
content, classes = read_graph_file({fd})
"""

SMAPS = """
def smaps():
    with open("/proc/self/smaps_rollup") as file:
        lines = [line.split() for line in file][1:]
    values = {words[0]: int(words[1]) * 1024 for words in lines}
    return values["Pss:"], values["Private_Clean:"] + values["Private_Dirty:"]
"""


def other_process(content: Any, code: str, root: Any = None) -> str:
    """What `code` prints in another process that has read `content` from a graph file."""
    fd = write_graph_file(content, root or fp.from_sequence([0]))
    try:
        return in_child(fd, code)
    finally:
        os.close(fd)


def in_child(fd: int, code: str) -> str:
    code = READ.format(path=sys.path, fd=fd) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], pass_fds=[fd], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_script(tmp_path: Path, code: str, *, piped: bool = False) -> list[str]:
    """Runs a user's script: from a file, or from standard input."""
    (tmp_path / "other_process.py").write_text(
        "import os, subprocess, sys\n"
        "from feedpipe.services.transport.graph_file import write_graph_file\n"
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
    plan = Plan(pipe, seed=3, rank=1, world_size=2, workers=4, shards=shards)
    arguments = PlanArguments(plan.seed, plan.rank, plan.world_size, plan.shards)
    code = """
    root, arguments = content
    plan = arguments.plan(root)
    print([getattr(plan, name) for name in ('seed', 'rank', 'world_size', 'shards', 'indexed')])
    """
    assert other_process((plan.root, arguments), code) == str([3, 1, 2, shards or 0, shards is None])


# Shared, and not copied


def test_arrays_are_views_of_the_shared_file() -> None:
    arrays = {"x": np.arange(1_000_000), "y": np.arange(2_000_000).reshape(2, -1).T, "z": np.arange(2_000_000)[::2]}
    pipe = fp.from_arrays(arrays)
    scratch = np.zeros(3)
    fd = write_graph_file((pipe, scratch), pipe)
    assert os.fstat(fd).st_size < 34_000_000
    code = """
    pipe, scratch = content
    assert {name: int(column.sum()) for name, column in pipe.op.arrays.items()} == SUMS
    import mmap
    for column in pipe.op.arrays.values():
        while not isinstance(column, memoryview):
            column = column.base
        assert isinstance(column.obj, mmap.mmap)
    scratch[:] = 1  # changes only this process
    print(scratch, pipe[5])
    """
    sums = {name: int(array.sum()) for name, array in arrays.items()}
    for _ in range(2):
        assert in_child(fd, code.replace("SUMS", str(sums))).startswith("[1. 1. 1.] {'x': 5, 'y': array([")
    os.close(fd)
    assert scratch.tolist() == [0, 0, 0]


def test_arrow_is_shared_and_a_slice_leaves_its_parent_behind() -> None:
    table = pa.table({"x": np.arange(1_000_000), "s": pa.array([str(i) for i in range(1_000_000)])})
    code = "print(content[77], len(content), content.op)"
    for part, most in ((table, table.nbytes + 100_000), (table.slice(500_000, 1000), 100_000)):
        pipe = fp.from_table(part)
        before = pa.total_allocated_bytes()
        fd = write_graph_file(pipe, pipe)
        assert pa.total_allocated_bytes() - before < 100_000
        assert os.fstat(fd).st_size < most
        assert in_child(fd, code).startswith(f"{pipe[77]} {len(pipe)} ")
        assert in_child(fd, "import pyarrow as pa\nlen(content)\nprint(pa.total_allocated_bytes() < 2000)") == "True"
        os.close(fd)


def test_tensors_are_shared_too() -> None:
    import torch

    whole = torch.arange(1_000_000)
    tensors = {
        "rows": whole,
        "strided": whole[::4],
        "bf16": torch.ones(3, dtype=torch.bfloat16),
        "none": torch.zeros(0, 4),
        "leaf": torch.ones(2, requires_grad=True),
    }
    fd = write_graph_file(tensors, fp.from_sequence([0]))
    assert os.fstat(fd).st_size < 10_100_000
    look = "[(str(t.dtype), tuple(t.shape), float(t.detach().sum()), t.requires_grad) for t in content.values()]"
    assert in_child(fd, f"print({look})") == str(eval(look, {"content": tensors}))
    assert in_child(fd, "content['rows'][0] = 7\nprint(int(content['rows'][0]))") == "7"
    os.close(fd)
    assert int(whole[0]) == 0


# Long lists

N = 5000
LISTS: dict[str, Any] = {
    "text": [f"/data/{i}.jpg" for i in range(N)],
    "tuple": tuple(f"/data/{i}.jpg" for i in range(N)),
    "foreign": [f"/données/{i}/画像.jpg" for i in range(N)],
    "undecodable": [os.fsdecode(b"/data/\xff\xfe%d" % i) for i in range(N)],
    "astral and empty": ["", "\U0001f600", "\0", "\ud83d\ude00"] * (N // 4),
    "empty": [""] * N,
    "integers": list(range(-N // 2, N // 2)),
    "large integers": [2**40 + i for i in range(N)],
    "huge integers": [2**70 + i for i in range(N)],
    "floats": [i / 7 for i in range(N)],
    "bytes": [b"\xff" * (i % 5) for i in range(N)],
    "pairs": [(f"/data/{i}.jpg", i) for i in range(N)],
    "nested": [((f"/data/{i}", i / 2), b"x", None) for i in range(N)],
    "ragged": [("a",) * (i % 3 + 1) for i in range(N)],
    "mixed": [i if i % 1000 else str(i) for i in range(N)],
    "bools": [i % 2 == 0 for i in range(N)],
    "dicts": [{"i": i} for i in range(N)],
}


class Text(str):
    __slots__ = ()


POSITIONS = [0, 1, N - 1, 2047, 2048, 7, 7]


@pytest.fixture(scope="module")
def lists_elsewhere() -> dict[str, list[Any]]:
    """What another process reads of each list."""
    # The child returns the rows as a pickle on its standard output.
    code = f"""
    import pickle
    import numpy as np
    from feedpipe.core.context import Context

    def parts(fd):
        content, _ = read_graph_file(fd)
        op, stage, run = content.op, content._stage(), Context()
        ranges = [range({N}), range(10, 10), range(2000, 4099), range(3, {N}, 7), range({N}, {N})]
        parts = [op.rows(stage, indices, run) for indices in [*ranges, np.array({POSITIONS})]]
        items = op.sequence
        return [
            *parts, [items[i] for i in (0, -1, {N - 1})], list(items), list(items[5:9]), len(items), op.call()
        ]
    """
    fds = {}
    for name, rows in LISTS.items():
        pipe = fp.from_sequence(rows)
        fds[name] = write_graph_file(pipe, pipe)
    code = READ.format(path=sys.path, fd=next(iter(fds.values()))) + textwrap.dedent(code)
    code += f"sys.stdout.buffer.write(pickle.dumps({{name: parts(fd) for name, fd in {fds!r}.items()}}))\n"
    read = pickle.loads(subprocess.check_output([sys.executable, "-c", code], pass_fds=list(fds.values())))
    for fd in fds.values():
        os.close(fd)
    return read


@pytest.mark.parametrize("name", LISTS)
def test_rows_of_a_list_are_equal_in_the_other_process(name: str, lists_elsewhere: dict[str, list[Any]]) -> None:
    rows, parts = LISTS[name], lists_elsewhere[name]
    pipe = fp.from_sequence(rows)
    rows = list(rows)
    assert parts[:5] == [rows, [], rows[2000:4099], rows[3:N:7], []]
    assert parts[5] == [rows[i] for i in POSITIONS]
    assert parts[6:10] == [[rows[0], rows[-1], rows[-1]], rows, rows[5:9], N]
    assert parts[10] == pipe.op.call()
    assert [type(row) for row in parts[0]] == [type(row) for row in rows]


def test_subclasses_of_str_keep_their_class() -> None:
    pipe = fp.from_sequence(["a"] * N + [Text("b")])
    assert (
        other_process(pipe, "rows = list(content)\nprint(type(rows[0]).__name__, type(rows[-1]).__name__)")
        == "str Text"
    )


def test_a_long_list_leaves_pickle_alone() -> None:
    pipe = fp.from_sequence(LISTS["text"])
    assert pickle.loads(pickle.dumps(pipe, 5)).op.sequence == LISTS["text"]


def test_a_long_list_costs_a_worker_little() -> None:
    count = 500_000
    rows = [f"/data/imagenet/train/n{i % 1000:08d}/class_{i % 1000:04d}/img_{i:012d}.JPEG" for i in range(count)]
    pipe = fp.from_sequence(rows)
    fd = write_graph_file(pipe, pipe)
    shared = os.fstat(fd).st_size
    assert 40 * count < shared < 80 * count
    code = (
        SMAPS
        + f"""
import numpy as np
from feedpipe.core.context import Context
op, stage, run = content.op, content._stage(), Context()
op.rows(stage, range(0, 1000), run), op.rows(stage, np.arange(10), run)
before = smaps()
for indices in np.random.default_rng(0).integers(0, {count}, (40, 100)):
    op.rows(stage, indices, run)
for start in range(0, {count}, 1000):
    op.rows(stage, range(start, start + 1000), run)
print(max(now - then for now, then in zip(smaps(), before)))
"""
    )
    assert int(in_child(fd, code)) < shared / 8
    os.close(fd)


def test_a_list_of_files_is_shared(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{i}.txt") for i in range(1200)]
    for name in names:
        Path(name).touch()
    pipe = fp.list_files(names)
    root = pipe._stage().node
    fd = write_graph_file(root, root)
    code = """
    from feedpipe.engine.run import elements
    from feedpipe.engine.stage import bind
    print(content.op.call(), type(content.op.selection.paths).__qualname__, list(elements(bind(content)))[::600])
    """
    assert in_child(fd, code) == f"list_files(<list of 1200>) PackedList {names[::600]}"
    os.close(fd)


def test_the_descriptor_may_be_closed_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = fp.from_sequence(LISTS["text"])
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


# What cannot be sent


class Reader:
    __slots__ = ("lock", "name")

    def __init__(self) -> None:
        self.name = "x"
        self.lock = threading.Lock()


class Decoder:
    def __init__(self) -> None:
        self.reader = Reader()

    def __call__(self, row: object) -> object:
        return row

    def decode(self, row: object) -> object:
        return row


LOCK = threading.Lock()


def uses_a_global(row: object) -> object:
    with LOCK:
        return row


def calls_one(row: object) -> object:
    return [uses_a_global(r) for r in (row,)]


def closing(value: object) -> Any:
    def decode(row: object) -> object:
        return row, value

    return decode


def with_default(row: object, *, lock: Any = LOCK) -> object:
    return row, lock


class Refuses:
    def __reduce__(self) -> Any:
        raise ValueError("not today")


def refusal(pipe: Any, init: Any = None) -> str:
    with pytest.raises(ArgumentTypeError) as caught:
        write_graph_file((pipe, init), pipe)
    assert caught.value.__cause__ is not None
    return str(caught.value)


def mapped(function: Any) -> str:
    pipe = fp.from_sequence([1]).map(function)
    message = refusal(pipe)
    assert pipe.call_site is not None
    assert message.endswith(f"\n  at {pipe.call_site.file}:{pipe.call_site.line}")
    return message.partition("\n")[0]


def test_the_message_names_operator_line_and_attribute() -> None:
    assert mapped(closing(LOCK)) == (
        "`.map(closing.<locals>.decode)` cannot be sent to a worker process: `closing.<locals>.decode` uses `value`, "
        "and a _thread.lock cannot be pickled; make it inside the function, or keep it in a module"
    )
    assert "`Decoder` uses `self.reader.lock`, and a _thread.lock cannot" in mapped(Decoder())
    assert "`Decoder.decode` uses `self.reader.lock`, and a _thread.lock cannot" in mapped(Decoder().decode)
    assert "uses `value['a'][1].reader.lock`, and" in mapped(closing({"a": [0, Decoder()]}))


def test_functions_of_main_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (uses_a_global, calls_one, with_default):
        monkeypatch.setattr(function, "__module__", "__main__")
    assert "`uses_a_global` uses `LOCK`, and a _thread.lock" in mapped(uses_a_global)
    assert "`calls_one` uses `uses_a_global.LOCK`, and a _thread.lock" in mapped(calls_one)
    assert "`with_default` uses `lock`, and a _thread.lock" in mapped(with_default)


def test_each_kind_has_its_repair(tmp_path: Path) -> None:
    import sqlite3

    with open(tmp_path / "a", "wb+") as binary, open(tmp_path / "b", "w+") as text, socket.socket() as line:
        connection = sqlite3.connect(":memory:")
        assert "an _io.BufferedRandom cannot be pickled; open it inside the function" in mapped(closing(binary))
        assert "an _io.TextIOWrapper cannot be pickled; open it inside the function" in mapped(closing(text))
        assert "a socket.socket cannot be pickled; connect inside the function" in mapped(closing(line))
        assert "a sqlite3.Connection cannot be pickled; connect inside the function" in mapped(closing(connection))
        assert "a generator cannot be pickled; make it inside the function" in mapped(closing(i for i in "ab"))
        connection.close()
    assert "(ValueError: not today)" in mapped(closing([Refuses()]))


def test_one_bad_row_of_many_is_found() -> None:
    rows: list[object] = [str(i) for i in range(20_000)]
    rows[12_345] = (1, Decoder())
    assert "`sequence[12345][1].reader.lock` is a _thread.lock, and that cannot be pickled" in refusal(
        fp.from_sequence(rows)
    )


def test_an_error_says_that_a_value_is_nested_too_deeply() -> None:
    deep: list[object] = []
    for _ in range(200_000):
        deep = [deep]
    assert "`value` is nested too deeply to be pickled" in mapped(closing(deep)) or "nested too deeply" in refusal(
        fp.from_sequence(deep)
    )
    while deep:  # to free it at once, Python would recurse as deep
        deep = deep[0]  # type: ignore[assignment]


def test_init_is_named() -> None:
    message = refusal(fp.from_sequence([1]), closing(LOCK))
    assert message.startswith("`init` cannot be sent to a worker process: `closing.<locals>.decode` uses `value`, and")
