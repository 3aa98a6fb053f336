"""How many finished elements a worker keeps ready."""

from __future__ import annotations

from feedpipe.services.processes.prefetch_limit import Backlog


def filled(backlog: Backlog, nbytes: int = 1) -> int:
    """How many elements wait once it is full."""
    while not backlog.is_full():
        backlog.made(nbytes)
    return backlog.waiting


def test_what_the_user_says_is_kept_to() -> None:
    backlog = Backlog(3)
    for _ in range(4):
        assert filled(backlog) == 3
        backlog.took(3)


def test_it_grows_when_the_consumer_takes_all_of_a_burst() -> None:
    backlog = Backlog(None)
    found = []
    for _ in range(8):
        found.append(filled(backlog))
        backlog.took(backlog.waiting)
    assert found == [2, 4, 8, 16, 32, 64, 64, 64]


def test_a_consumer_that_never_takes_all_is_slower_and_needs_no_more() -> None:
    backlog = Backlog(None)
    for _ in range(8):
        assert filled(backlog) == 2
        backlog.took(1)


def test_a_worker_that_never_stands_still_is_slower_and_has_no_more() -> None:
    backlog = Backlog(None)
    for _ in range(8):
        backlog.made(1)
        assert not backlog.is_full()
        backlog.took(1)
    assert filled(backlog) == 2


def test_large_elements_are_not_piled_up() -> None:
    backlog = Backlog(None)
    for _ in range(4):
        waiting = filled(backlog, Backlog.BYTES // 4)
        backlog.took(waiting)
    assert waiting == 4
