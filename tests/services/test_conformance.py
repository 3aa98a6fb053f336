"""Every reading service does all that a loader promises."""

from __future__ import annotations

import json
import os

import pytest

import feedpipe as fp

from ..support.testing import PARTS, check_part

SERVICES = {  # with others in which states go on; tests/clients checks `Ray`
    "in process": (fp.InProcess(), []),
    "one worker": (fp.MultiProcess(1), []),
    "five workers": (fp.MultiProcess(5), []),
    "other numbers of workers": (fp.MultiProcess(2), [fp.MultiProcess(3, prefetch=1)]),
    "one thread": (fp.Threads(1), []),
    "threads and processes": (fp.Threads(3), [fp.MultiProcess(2)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", SERVICES)
def test_it_does_what_a_loader_promises(name, part):
    service, others = SERVICES[name]
    check_part(part, service, others)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_state_taken_while_elements_wait_does_not_count_them(tmp_path, streamed):
    fifo = tmp_path / "produced"
    os.mkfifo(fifo)

    def report(row: int) -> int:
        with open(fifo, "wb", buffering=0) as file:
            file.write(b".")
        return row

    pipe = fp.from_sequence(range(40)).map(report)
    if streamed:
        pipe = pipe.filter(lambda row: row >= 0)
    produced = os.open(fifo, os.O_RDWR)
    with fp.Loader(pipe, fp.MultiProcess(1, prefetch=4)) as loader:
        iterator = iter(loader)
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        for _ in range(3 + 4):  # waits until the worker has produced so many
            os.read(produced, 1)
        state = json.loads(json.dumps(loader.state_dict()))
        assert loader.peek() == 3
        assert loader.state_dict() == state
        assert list(iterator) == list(range(3, 40))
        for service in (fp.InProcess(), fp.MultiProcess(2)):
            with fp.Loader(pipe, service) as other:
                other.load_state_dict(state)
                assert list(other) == list(range(3, 40))
    os.close(produced)
