"""torchdata's StatefulDataLoader around a pipe saves and resumes exactly where the consumer stands."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import feedpipe as fp

PIPES = {
    "indexed": fp.from_sequence(range(40)).shuffle().batch(3),
    "streamed": fp.from_sequence(range(60)).filter(lambda x: x % 3).shuffle(window=8).batch(3),
    "in order": fp.from_sequence(range(60)).filter(lambda x: x % 3).batch(3),
}


def loader_of(pipe: fp.Pipe[Any], workers: int, epoch: int) -> Any:
    dataset = pipe.as_iterable_dataset(seed=4, rank=1, world_size=2, even=None)
    dataset.set_epoch(epoch)
    options = {"multiprocessing_context": "fork"} if workers else {}
    return StatefulDataLoader(dataset, batch_size=None, num_workers=workers, **options)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 4])
@pytest.mark.parametrize("kind", PIPES)
def test_resume_in_the_middle_of_an_epoch(kind: str, stop: int, workers: int) -> None:
    whole = list(loader_of(PIPES[kind], workers, 2))
    first = loader_of(PIPES[kind], workers, 2)
    elements = iter(first)
    taken = list(itertools.islice(elements, stop))
    state = first.state_dict()
    resumed = loader_of(PIPES[kind], workers, 2)
    resumed.load_state_dict(state)
    assert taken + list(resumed) == whole
    assert list(resumed) == whole  # the next epoch, of the same number
    assert sorted(itertools.chain(*whole)) == sorted(set(itertools.chain(*whole)))
