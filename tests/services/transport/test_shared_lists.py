"""Long lists lie in the graph file once, and each process makes the rows that it needs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from typing import Any

import pytest

import feedpipe as fp

from ...support.services import write_graph_file
from .graph_reader import READ, in_child

SMAPS = """
def anonymous():
    with open("/proc/self/smaps_rollup") as file:
        lines = [line.split() for line in file][1:]
    return {words[0]: int(words[1]) * 1024 for words in lines}["Anonymous:"]
"""
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
    assert parts[10] == pipe.op.call().replace("<tuple of", "<list of")  # a worker holds both as columns
    assert [type(row) for row in parts[0]] == [type(row) for row in rows]


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
before = anonymous()
for indices in np.random.default_rng(0).integers(0, {count}, (40, 100)):
    op.rows(stage, indices, run)
for start in range(0, {count}, 1000):
    op.rows(stage, range(start, start + 1000), run)
print(anonymous() - before)
"""
    )
    assert int(in_child(fd, code)) < shared / 8
    os.close(fd)
