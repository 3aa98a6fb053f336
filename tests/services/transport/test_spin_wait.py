"""A wait that may spin checks again and again while answers come fast; one that may not sleeps at once."""

from __future__ import annotations

import os

import pytest

from ...support.services import SpinWait, enough_cores


class Answers:
    """Counts how often a wait checks."""

    def __init__(self) -> None:
        self.checks = 0

    def check(self) -> None:
        self.checks += 1

    def sleep(self) -> bool:
        return True


@pytest.mark.parametrize("allowed", [True, False])
def test_it_spins_only_if_it_may(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    clock = iter(x * 0.00005 for x in range(100))
    monkeypatch.setattr("feedpipe.services.transport.channel.perf_counter", lambda: next(clock))
    wait, answers = SpinWait(), Answers()
    wait.allowed = allowed
    assert wait.wait(answers.check, answers.sleep) and answers.checks == 0  # the first answer came fast
    assert wait.wait(answers.check, answers.sleep)
    assert (answers.checks > 0) is allowed


def test_cores_are_shared_by_the_ranks_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert enough_cores(4) and not enough_cores(5)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert enough_cores(2) and not enough_cores(3)
