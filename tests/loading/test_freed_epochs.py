"""What an epoch has used is freed when its loader is dropped: no cycle keeps it for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import feedpipe as fp

from ..support.testing import samples


@contextmanager
def nothing_for_the_collector() -> Iterator[None]:
    """Fails if the body leaves objects of feedpipe that only the garbage collector frees."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        left = {type(one).__name__ for one in gc.garbage if type(one).__module__.startswith("feedpipe")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


def finish(loader: fp.Loader[object]) -> None:
    with loader:
        for _ in range(2):
            for _ in loader:
                pass


def resume(pipe: fp.Pipe[object], shards: int | None) -> None:
    loader = fp.Loader(pipe, shards=shards)
    next(iter(loader))
    resumed = fp.Loader(pipe, shards=shards)
    resumed.load_state_dict(loader.state_dict())
    finish(resumed)


def resume_on_fewer_ranks(pipe: fp.Pipe[object], shards: int | None) -> None:
    states = []
    for rank in range(2):
        loader = fp.Loader(pipe, rank=rank, world_size=2, shards=shards, even=None)
        next(iter(loader))
        states.append(loader.state_dict())
    resumed = fp.Loader(pipe, even=None)
    resumed.load_state_dict(states)
    finish(resumed)


RUNS: dict[str, Callable[[fp.Pipe[object], int | None], None]] = {
    "in this process": lambda pipe, shards: finish(fp.Loader(pipe, shards=shards)),
    "in threads": lambda pipe, shards: finish(fp.Loader(pipe, fp.Threads(2), shards=shards)),
    "resumed": resume,
    "resumed on fewer ranks": resume_on_fewer_ranks,
}


@pytest.mark.filterwarnings("ignore::feedpipe.errors.PlanWarning")
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_finished_epoch(run: Callable[[fp.Pipe[object], int | None], None], tmp_path: Path) -> None:
    groups = samples(tmp_path)
    for sample in [*groups["indexed"][:1], *groups["streamed"], *groups["files"]]:
        if sample.shards and run is resume_on_fewer_ranks:
            continue
        run(sample.pipe, sample.shards)  # modules and caches that stay are made here
        with nothing_for_the_collector():
            run(sample.pipe, sample.shards)
