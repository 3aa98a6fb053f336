"""Arrays, Arrow data and tensors of a graph file are mapped by each process, and not copied."""

from __future__ import annotations

import os

import numpy as np

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
