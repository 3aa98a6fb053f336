"""A loader leaves nothing behind, however it ends: no process, memory or descriptor (see `nothing_left`)."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

import feedpipe as fp


def arrays(count=60):
    return fp.from_sequence(range(count)).map(lambda row: np.full(3000, row))  # in shared memory


@pytest.fixture(autouse=True)
def same_number_of_files(processes):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    with fp.Loader(arrays(4), workers=1) as loader:  # the first run opens some files for good
        list(loader)
    before = open_files()
    yield
    processes.await_dropped()
    assert open_files() <= before


@pytest.mark.slow
def test_dropped_halfway(processes):
    gc.disable()
    try:
        loader = fp.Loader(arrays(), workers=2)
        iterator = iter(loader)
        next(iterator)
        del loader
        assert len(list(iterator)) == 59  # it still needs the workers
        del iterator
        processes.await_dropped()
        assert not processes.below(zombies=True)
    finally:
        gc.enable()


def test_dropped_while_iterated(processes):
    for _ in fp.Loader(arrays(), workers=2):
        assert processes.below()
        break
    processes.await_dropped()
    assert not processes.below(zombies=True)


def test_arrays_outlive_the_loader(processes):
    with fp.Loader(arrays(), workers=2) as loader:
        kept = list(loader)
    del loader
    assert all((array == row).all() for row, array in enumerate(kept))
    kept[3][:] = 7
    assert processes.mapped()
    del kept
    assert not processes.mapped()


def test_abandoned_epochs(processes):
    with fp.Loader(arrays(), workers=2) as loader:
        for epoch in range(30):
            for row, array in enumerate(loader):
                assert (array == row).all()
                if row == epoch:
                    break
        before = processes.descriptors()
        assert len(list(loader)) == 60
        assert processes.descriptors() == before


def test_a_close_that_was_interrupted_closes_nothing_twice(processes, monkeypatch):
    loader = fp.Loader(arrays(4), workers=1)
    assert len(list(loader)) == 4

    def interrupted(self):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("feedpipe.services.processes.start.ForkServer.close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loader.close()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]  # they get the numbers that are free now
    del loader
    processes.await_dropped()
    assert not processes.below(zombies=True)
    for descriptor in others:
        os.close(descriptor)
