"""Bad arguments, stuck workers, a failing `init` and scarce memory lead to clear errors, and nothing hangs."""

from __future__ import annotations

import contextlib
import logging
import os
import threading

import numpy as np
import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, DataError, LimitError, WorkerError

from ...support.core import system


def numbers(count=40):
    return fp.from_sequence(range(count))


def big(pipe, size=3000):
    return pipe.map(lambda row: np.full(size, row))


class TestArguments:
    @pytest.mark.parametrize("workers", [-1, -(10**20)])
    def test_out_of_range(self, workers):
        with pytest.raises(ArgumentError, match="`workers` must be >= 0"):
            fp.Loader(numbers(), workers=workers)

    def test_no_workers(self, processes):
        with fp.Loader(numbers(), workers=0) as loader:
            assert list(loader) == list(range(40)) and not processes.below()
        with pytest.raises(ArgumentError, match="`workers` must be >= 1"):
            fp.MultiProcess(0)

    def test_workers_are_part_of_a_service(self):
        with pytest.raises(ArgumentError, match="must not be given together; give `workers` to MultiProcess"):
            fp.Loader(numbers(), fp.MultiProcess(2), workers=2)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("prefetch", 0),
            ("threads", 0),
            ("io_threads", -1),
            ("memory", -5),
            ("memory", "much"),
            ("timeout", 0),
            ("timeout", -1.0),
            ("timeout", float("nan")),
        ],
    )
    def test_of_a_service(self, name, value):
        with pytest.raises(ArgumentError, match=f"`{name}"):
            fp.MultiProcess(2, **{name: value})

    @pytest.mark.parametrize(("name", "value"), [("timeout", "5"), ("init", 5), ("prefetch", "2"), ("memory", [])])
    def test_of_a_service_of_the_wrong_type(self, name, value):
        with pytest.raises(ArgumentTypeError, match=f"`{name}`"):
            fp.MultiProcess(2, **{name: value})


def finishes(loader, rows):
    """Whether an epoch is complete; on a slow machine it may hit its `timeout`."""
    try:
        assert list(loader) == rows
    except WorkerError as error:
        assert "which is the `timeout`" in str(error)
        return False
    return True


class TestStuck:
    @pytest.mark.slow
    def test_the_error_shows_where(self):
        def wait_for_ever(row):
            if row == 5:
                threading.Event().wait()
            return row

        # On a busy machine, the worker may not have started yet in the first epochs.
        service, said = fp.MultiProcess(2, timeout=0.4), ""
        with fp.Loader(numbers().map(wait_for_ever), service) as loader:
            while "in wait_for_ever" not in said:
                got = []
                with pytest.raises(WorkerError, match="no element has come for 0.4 seconds") as caught:
                    got.extend(loader)
                assert got == list(range(len(got))) and len(got) <= 5
                said = str(caught.value)
        assert f'"{__file__}", line' in said and "worker 1 (process " in said

    def test_the_next_epoch_may_be_stuck_or_not(self, tmp_path):
        mend = tmp_path / "mend"

        def wait(row):
            while row == 5 and not mend.exists():
                threading.Event().wait(0.01)
            return row

        with fp.Loader(numbers().map(wait), fp.MultiProcess(2, timeout=0.4)) as loader:
            for _ in range(2):
                with pytest.raises(WorkerError, match="which is the `timeout`"):
                    list(loader)
            mend.touch()
            while not finishes(loader, list(range(40))):
                pass

    def test_a_slow_consumer_does_not_count_as_a_stuck_worker(self):
        for timeout in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4):
            rows, service = [], fp.MultiProcess(2, timeout=timeout, prefetch=1)
            # If the machine is slow now, the worker may need the next timeout, which is longer.
            with fp.Loader(numbers(3), service) as loader, contextlib.suppress(WorkerError):
                for row in loader:
                    rows.append(row)
                    threading.Event().wait(1.1 * timeout)
                break
        assert rows == list(range(3))


class TestInit:
    def test_once_in_each_worker_with_its_number(self, tmp_path):
        def init(number):
            (tmp_path / f"{number} {os.getpid()}").touch()

        service = fp.MultiProcess(3, init=init)
        with fp.Loader(numbers().map(lambda row: os.getpid()), service) as loader:
            pids = list(loader)
            list(loader)
        assert sorted(os.listdir(tmp_path)) == sorted(f"{number} {pids[number]}" for number in range(3))

    def test_that_fails(self):
        def connect(number):
            if number == 1:
                raise ConnectionError("no route")

        with fp.Loader(numbers(), fp.MultiProcess(2, init=connect)) as loader:
            for _ in range(2):
                with pytest.raises(
                    WorkerError, match="worker 1 cannot begin, `init=.*connect` failed with ConnectionError: no route"
                ) as caught:
                    list(loader)
                assert type(caught.value.__cause__) is ConnectionError
                assert "in connect" in str(caught.value.__cause__.__cause__)

    def test_that_cannot_be_sent(self):
        lock = threading.Lock()
        loader = fp.Loader(numbers(), fp.MultiProcess(1, init=lambda number: lock))
        with pytest.raises(ArgumentTypeError, match="`init` cannot be sent to a worker process.*`lock`"), loader:
            list(loader)


class TestMemory:
    def test_without_shared_memory(self, monkeypatch, caplog):
        def nothing(size: int) -> int:
            raise OSError("no shared memory here")

        monkeypatch.setattr(system, "create_shared_memory", nothing)
        with fp.Loader(big(numbers()), fp.MultiProcess(2)) as loader:
            for _ in range(2):
                assert [int(row.sum()) for row in loader] == [3000 * row for row in range(40)]
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "no shared memory" in caplog.text

    def test_a_limited_address_space(self, script):
        source = """
import logging, resource, numpy as np
import feedpipe as fp
logging.disable()
resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
pipe = fp.from_sequence(range(6)).map(lambda row: np.full(3000, row))
with fp.Loader(pipe, fp.MultiProcess(2, memory="32GiB")) as loader:
    print([int(row[0]) for row in loader])
"""
        assert script.run(source) == "[0, 1, 2, 3, 4, 5]\n"

    @pytest.mark.parametrize("memory", ["64KiB", 5000, 100])
    def test_less_than_one_element(self, memory):
        loader = fp.Loader(big(numbers(), 10**5), fp.MultiProcess(2, memory=memory))
        with pytest.raises(LimitError, match="an element of 0.8 MiB does not fit .* `memory`"), loader:
            list(loader)

    @pytest.mark.parametrize("prefetch", [1, 4])
    @pytest.mark.parametrize("memory", ["300KiB", "1MiB"])
    def test_a_consumer_that_keeps_everything(self, memory, prefetch, caplog):
        caplog.set_level(logging.INFO)
        with fp.Loader(big(numbers(100)), fp.MultiProcess(2, memory=memory, prefetch=prefetch)) as loader:
            kept = [array for _ in range(2) for array in loader]
        assert all((array == place % 100).all() for place, array in enumerate(kept))
        assert caplog.text.count("fill what `memory` allows") == 1

    def test_keeping_labels_does_not_keep_images(self, caplog):
        image = 2 * 2**20
        pipe = numbers(100).map(lambda row: {"image": np.full(image, row, np.uint8), "label": np.full(8, row)})
        with fp.Loader(pipe, fp.MultiProcess(1, memory="64MiB", prefetch=2)) as loader:
            labels = [element["label"] for element in loader]
            used = sum(
                os.stat(file).st_blocks * 512
                for file in (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
                if os.path.exists(file) and os.stat(file).st_size == 64 * 2**20
            )
        assert [int(label[0]) for label in labels] == list(range(100))
        # The labels lie between the images. How many holes they spoil is a matter of timing.
        assert image < used < 20 * image and not caplog.records


class TestUnpicklable:
    def test_in_an_element(self):
        with fp.Loader(numbers().map(lambda row: threading.Lock() if row == 7 else row), workers=2) as loader:
            got = []
            with pytest.raises(DataError, match="an element cannot leave its worker.*lock") as caught:
                for row in loader:
                    got.append(row)
        assert f"\n  at {__file__}:" in str(caught.value)
        assert got == list(range(7))
