"""A worker keeps two finished elements ready, and more if its consumer takes them in bursts."""

from __future__ import annotations

from ..support.services import PrefetchLimit


def fill(limit: PrefetchLimit, nbytes: int = 1) -> int:
    """Adds elements until the limit is reached; returns how many wait then."""
    while not limit.is_full():
        limit.add(nbytes)
    return limit.waiting


def test_a_fixed_limit_stays() -> None:
    limit = PrefetchLimit(3)
    for _ in range(4):
        assert fill(limit) == 3
        limit.remove(3)


def test_it_grows_when_the_consumer_takes_all_of_a_burst() -> None:
    limit = PrefetchLimit(None)
    limits = []
    for _ in range(8):
        limits.append(fill(limit))
        limit.remove(limit.waiting)
    assert limits == [2, 4, 8, 16, 32, 64, 64, 64]


def test_it_stays_when_the_consumer_is_slower() -> None:
    limit = PrefetchLimit(None)
    for _ in range(8):
        assert fill(limit) == 2
        limit.remove(1)


def test_it_stays_when_the_worker_is_slower() -> None:
    limit = PrefetchLimit(None)
    for _ in range(8):
        limit.add(1)
        assert not limit.is_full()
        limit.remove(1)
    assert fill(limit) == 2


def test_large_elements_do_not_pile_up() -> None:
    limit = PrefetchLimit(None)
    for _ in range(4):
        waiting = fill(limit, PrefetchLimit.MAX_BYTES // 4)
        limit.remove(waiting)
    assert waiting == 4
