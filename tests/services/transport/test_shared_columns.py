"""Arrays, Arrow data and tensors of a graph file are mapped by each process, and not copied."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

import feedpipe as fp

from ...support.services import write_graph_file
from .graph_reader import in_child


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


@pytest.mark.slow
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


@pytest.mark.slow
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
