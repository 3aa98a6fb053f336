from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import feedpipe as fp
from feedpipe.errors import PlanWarning, WorkerError, WorkerWarning
from feedpipe.testing import check_operator


def numbers() -> Iterator[int]:
    return iter(range(1000))


def test_law():
    assert check_operator(fp.from_iterable(numbers).take(20).dispatch().map(str)) == [str(i) for i in range(20)]
    assert check_operator(fp.from_sequence(range(9)).dispatch().batch(2))[-1] == [8]


def test_one_process_produces(tmp_path: Path):
    log = tmp_path / "log"

    def source() -> Iterator[int]:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return numbers()

    pipe = fp.from_iterable(source).dispatch().map(lambda x: x * 2).batch(7)
    with fp.Loader(pipe, workers=3) as loader:
        for _ in range(2):
            assert sorted(x for batch in loader for x in batch) == list(range(0, 2000, 2))
    producers = log.read_text().split()
    assert len(producers) == 2, "once an epoch"
    assert len(set(producers)) == 1 and producers[0] != str(os.getpid())


def test_without_it_each_worker_reads_all():
    with pytest.warns(PlanWarning, match=r"100% of the input is read again.*put `dispatch\(\)` after it"):
        list(fp.Loader(fp.from_iterable(numbers), workers=2, shards=2))


def test_resume_with_other_workers():
    pipe = fp.from_iterable(numbers).dispatch().shuffle(window=100).batch(8)
    with fp.Loader(pipe, workers=2) as loader:
        whole = list(loader)
        iterator = iter(loader)
        later = [next(iterator) for _ in range(31)][-1:]
        state = loader.state_dict()
        rest = list(iterator)
    for workers in (0, 1, 3):
        with fp.Loader(pipe, workers=workers) as loader:
            loader.set_epoch(0)
            assert list(loader) == whole
            loader.load_state_dict(state)
            assert list(loader) == rest, later


def test_errors_before_it_have_the_same_message():
    def fails(x: int) -> int:
        return 10 // (5 - x)

    pipe = fp.from_iterable(numbers).map(fails).dispatch()
    with fp.Loader(pipe, shards=2) as loader, pytest.raises(fp.RowError) as here:
        list(loader)
    with fp.Loader(pipe, workers=2) as loader, pytest.raises(fp.RowError) as there:
        list(loader)
    assert str(here.value) == str(there.value)
    assert isinstance(there.value.__cause__, ZeroDivisionError)


def test_a_producer_that_is_killed_is_replaced(tmp_path: Path):
    done = tmp_path / "done"

    def source() -> Iterator[int]:
        for x in numbers():
            if x == 500 and not done.exists():
                done.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield x

    with (
        fp.Loader(fp.from_iterable(source).dispatch().batch(3), workers=2) as loader,
        pytest.warns(WorkerWarning, match="the operators before `dispatch` was killed by SIGKILL"),
    ):
        assert sorted(x for batch in loader for x in batch) == list(range(1000))


def test_a_producer_that_always_dies_is_an_error():
    def source() -> Iterator[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield 1

    with (
        fp.Loader(fp.from_iterable(source).dispatch(), workers=2) as loader,
        pytest.warns(WorkerWarning),
        pytest.raises(WorkerError, match="it has died there 3 times"),
    ):
        list(loader)


def test_explain(capsys: pytest.CaptureFixture[str]):
    fp.from_iterable(numbers).dispatch().batch(2).explain(workers=2, shards=2)
    text = capsys.readouterr().out
    assert "runs in one process for all workers of a rank" in text
    assert "it is read once, for all workers, by one process" in text
