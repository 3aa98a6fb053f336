"""Workers use few threads and ignore interrupts; their global random generators are seeded."""

from __future__ import annotations

import os
import random
import signal
import subprocess

import numpy as np
import pytest

import feedpipe as fp


def seen(look, workers=1, count=2, **options):
    with fp.Loader(fp.from_sequence(range(count)).map(look), fp.MultiProcess(workers, **options)) as loader:
        return list(loader)


@pytest.mark.slow
def test_one_thread_computes_and_four_read():
    def look(row):
        import pyarrow as pa

        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        return [os.environ[name] for name in names], pa.cpu_count(), pa.io_thread_count()

    assert seen(look)[0] == (["1"] * 3, 1, 4)
    assert seen(look, threads=3, io_threads=2)[0] == (["3"] * 3, 3, 2)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"])
def test_a_worker_outlives_what_means_its_program_but_a_process_that_it_starts_does_not(name):
    def look(row):
        os.kill(os.getpid(), getattr(signal, name))
        process = subprocess.Popen(["sleep", "1000"])
        process.send_signal(getattr(signal, name))
        pid = os.fork()
        if not pid:
            os.kill(os.getpid(), getattr(signal, name))
            os._exit(0)
        fork = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return process.wait(), fork, signal.pthread_sigmask(signal.SIG_BLOCK, [])

    number = getattr(signal, name)
    assert seen(look) == [(-number, -number, set())] * 2


def draws(row):
    return random.random(), np.random.random()


def pipe(count=12):
    return fp.from_sequence(range(count)).map(draws)


def epochs(count=2, **options):
    with fp.Loader(pipe(), **options) as loader:
        return [list(loader) for _ in range(count)]


def test_draws_from_the_global_generators_differ_and_are_reproducible():
    first = epochs(workers=2, seed=1)
    flat = sum(first, [])
    assert len(set(flat)) == len(flat)  # by worker, epoch and row
    assert epochs(workers=2, seed=1) == first
    assert not set(sum(epochs(workers=2, seed=2), [])).intersection(flat)


def test_a_restarted_worker_draws_as_at_the_beginning(processes, deaths):
    expected = epochs(1, workers=1)[0]
    with deaths(), fp.Loader(pipe(40), fp.MultiProcess(1, prefetch=1)) as loader:
        iterator = iter(loader)
        next(iterator)
        processes.kill(processes.workers())
        got = list(iterator)
    assert expected[0] in got


@pytest.mark.slow
def test_torch_is_seeded_and_has_one_thread_if_a_function_imports_it():
    def draw(row):
        import torch

        return torch.rand(1).item(), torch.get_num_threads()

    def run(seed):
        with fp.Loader(fp.from_sequence(range(6)).map(draw), workers=2, seed=seed) as loader:
            return [list(loader) for _ in range(2)]

    first = run(1)
    assert len({drawn for drawn, _ in sum(first, [])}) == 12
    assert {threads for _, threads in sum(first, [])} == {1}
    assert run(1) == first
