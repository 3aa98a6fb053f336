"""`Pipe`: elements by position, and iteration."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import feedpipe as fp
from feedpipe.errors import ArgumentTypeError, PlanWarning


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


class Iterated(torch.utils.data.IterableDataset):
    """Gives the number of rows and the warnings of one worker."""

    def __init__(self, pipe: fp.Pipe[int], *, divided: bool) -> None:
        self.pipe = pipe
        self.divided = divided

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        info = torch.utils.data.get_worker_info()
        pipe = self.pipe.slice(info.id, None, info.num_workers) if info and self.divided else self.pipe
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            count = len(list(pipe))
        yield count, [str(warning.message) for warning in caught if warning.category is PlanWarning]


@pytest.mark.parametrize(
    ("workers", "divided", "expected"), [(2, False, [12, 12]), (2, True, [6, 6]), (1, False, [12]), (0, False, [12])]
)
def test_a_worker_of_torch_s_data_loader_warns_that_rows_come_several_times(workers, divided, expected):
    data = Iterated(fp.from_sequence(range(12)), divided=divided)
    results = list(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers))
    assert [count for count, _ in results] == expected
    for _, messages in results:
        if workers == 2 and not divided:
            (message,) = messages
            assert "each row comes 2 times; use `feedpipe.Loader(pipe, workers=2)`" in message
        else:
            assert messages == []
