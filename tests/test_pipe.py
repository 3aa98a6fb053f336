"""`Pipe`: elements by position, and iteration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, torch.tensor])
def test_an_index_is_anything_that_is_an_integer(kind):
    pipe = fp.from_sequence("abcd")
    assert pipe[kind(3)] == "d" and list(pipe[kind(1) : kind(3)]) == ["b", "c"]
    assert pipe[np.int64(-1)] == "d"


@pytest.mark.parametrize("index", [[1, 2], 1.0, "x", None, np.arange(2), torch.arange(2), (0, 1)])
def test_what_is_no_index(index):
    message = (
        r"`pipe\[...\]` takes an int or a slice but got: (.|\n)*`\[pipe\[i\] for i in indices\]`\n  at .*test_pipe.py"
    )
    with pytest.raises(ArgumentTypeError, match=message):
        fp.from_sequence("abcd")[index]
