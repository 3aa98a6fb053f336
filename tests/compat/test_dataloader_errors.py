"""Errors of `feedpipe.compat.DataLoader` are those of torch, and the batches after them still come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import Dataset, IterableDataset

import feedpipe as fp
from feedpipe.compat import DataLoader
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError

from .torch_datasets import Squares, forked


class Failing(Dataset[int]):
    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> int:
        if index % 3 == 1:
            raise NotImplementedError(f"row {index}")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_after_an_error_the_next_batch_comes(workers: int) -> None:
    batches = iter(DataLoader(Failing(), batch_size=1, **forked(workers)))
    seen: list[Any] = []
    while True:
        try:
            seen.append(next(batches).item())
        except StopIteration:
            break
        except NotImplementedError as error:
            seen.append(str(error))
    assert seen == [0, "row 1", 2, 3, "row 4", 5, 6, "row 7", 8]
    assert next(batches, None) is None


def test_an_error_shows_the_worker_and_its_lines() -> None:
    with pytest.raises(NotImplementedError) as caught:
        list(DataLoader(Failing(), **forked(1)))
    assert "in worker 0" in str(caught.value.__cause__)
    assert "raise NotImplementedError" in str(caught.value.__cause__)


class BadIter(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("no iterator")


def bad_init(worker: int) -> None:
    raise RuntimeError("no start")


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_at_the_start(workers: int) -> None:
    with pytest.raises(RuntimeError, match="no iterator"):
        list(DataLoader(BadIter(), **forked(workers)))
    if workers:
        with pytest.raises(RuntimeError, match="no start"):
            list(DataLoader(Squares(), worker_init_fn=bad_init, **forked(workers)))


def test_an_element_that_cannot_leave_its_worker() -> None:
    batches = iter(DataLoader(Squares(4), batch_size=2, collate_fn=lambda rows: threading.Lock(), **forked(1)))
    for _ in range(2):
        with pytest.raises(DataError, match="cannot leave its worker"):
            next(batches)
    assert next(batches, None) is None


INVALID: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_workers": -1}, ValueError, "non-negative"),
    ({"timeout": -1}, ValueError, "non-negative"),
    ({"timeout": 1}, ArgumentError, "`timeout` must be 0 without workers"),
    ({"batch_size": None, "drop_last": True}, ValueError, "mutually exclusive"),
    ({"shuffle": True, "sampler": [1]}, ValueError, "mutually exclusive"),
    ({"batch_size": 2, "batch_sampler": [[1]]}, ValueError, "mutually exclusive"),
    ({"multiprocessing_context": "fork"}, ValueError, "num_workers > 0"),
    ({"multiprocessing_context": "bad", "num_workers": 1}, ValueError, "valid start method"),
    ({"multiprocessing_context": object(), "num_workers": 1}, TypeError, "valid context"),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only"),
    ({"prefetch_factor": 0, "num_workers": 1}, ArgumentError, "`prefetch_factor` must be >= 1"),
    ({"persistent_workers": True}, ValueError, "num_workers > 0"),
    ({"batch_size": 0}, ValueError, "positive integer"),
    ({"distribute": "cluster"}, ArgumentError, "`distribute` must be"),
    ({"distribute": "ray"}, ArgumentError, "`num_workers` must be >= 1"),
    ({"distribute": fp.Ray(2), "num_workers": 3}, ArgumentError, "`num_workers` must be left out"),
]


@pytest.mark.parametrize(("options", "error", "message"), INVALID)
def test_invalid_arguments(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DataLoader(Squares(), **options)


def test_datapipes_are_refused() -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    with pytest.raises(ArgumentTypeError, match="must not be a DataPipe but got: IterableWrapper"):
        DataLoader(IterableWrapper([1]))
