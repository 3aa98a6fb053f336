"""The slowest rows and files, and the samples that are kept."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ..support.core import flight
from ..support.examples import examples


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.sampled_from(["row", "file"]), st.integers(1, 50)), max_size=60))
def test_the_slowest_of_each_kind_are_kept(works: list[tuple[flight.Kind, int]]) -> None:
    slowest, asked = flight.Slowest(), list[int]()

    def place(number: int) -> str:
        asked.append(number)
        return str(number)

    for number, (kind, ns) in enumerate(works):
        slowest.add(kind, "map-1", number, ns, 1, lambda number=number: place(number))  # type: ignore[misc]
    for kind in ("row", "file"):
        times = sorted((ns for one, ns in works if one == kind), reverse=True)[: flight.SLOWEST]
        assert [work.ns for work in slowest.works if work.kind == kind] == times
    assert {int(work.where) for work in slowest.works} <= set(asked)


def test_only_what_is_kept_is_asked_for_its_place() -> None:
    slowest, asked = flight.Slowest(), list[str]()
    for ns in range(1000, 0, -1):
        slowest.add("row", "map-1", 0, ns, 1, lambda ns=ns: asked.append(str(ns)) or str(ns))  # type: ignore[misc, func-returns-value]
    assert asked == [str(ns) for ns in range(1000, 1000 - flight.SLOWEST, -1)]


def test_a_row_that_is_slow_in_each_epoch_is_there_once() -> None:
    work = flight.SlowWork("row", "map-1", "a.csv, line 3", 0, 7, 1)
    other = work._replace(since=9, ns=8)
    assert flight.slowest([work, other, work._replace(of="map-2")]) == [other, work._replace(of="map-2")]


@given(st.integers(0, 3000))
def test_samples_stay_about_equally_far_apart(count: int) -> None:
    samples: list[flight.Fill] = []
    for number in range(count):
        samples = flight.thinned([*samples, flight.Fill(100 * number, 0, 0, 0)])
    assert len(samples) <= flight.SAMPLES and (len(samples) == count or count > flight.SAMPLES)
    if count:
        gaps = [after.at - before.at for before, after in pairwise(samples)]
        assert samples[0].at == 0 and samples[-1].at == 100 * (count - 1)
        assert max(gaps, default=100) <= 8 * 100 * max(1, count / flight.SAMPLES)


def test_a_process_has_memory() -> None:
    resident, shared = flight.memory()
    assert 2**20 < resident < 2**45 and 0 <= shared <= resident
