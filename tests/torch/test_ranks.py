"""`SideGroup`: exchanges that end late or fail, ranks that do not come, and jobs that start again on one store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed

from ..support.torch import Meeting, SideGroup


def test_a_rank_that_waits_for_others_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    untyped: Any = distributed
    store = untyped.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    assert SideGroup(store, [0, 1], 0, timeout=0.01).roll_call("the first element") == [1]
    assert capfd.readouterr() == ("", "")


@given(looks=st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=5), order=st.permutations(range(4)))
def test_ranks_meet_on_a_store_that_killed_ranks_have_used(looks: list[list[int]], order: list[int]) -> None:
    untyped: Any = distributed
    store = untyped.HashStore()
    for start in looks:
        killed = [Meeting(store, rank, 4) for rank in range(4)]
        for rank in start:
            if killed[rank].look():
                killed[rank].store.set("text", "of an earlier start")
    ranks = [Meeting(store, rank, 4) for rank in range(4)]
    for rank in order:
        assert ranks[rank].look() == (rank == 0), "only the first rank knows the part before its answer"
        assert rank or not ranks[0].store.check(["text"])
    for rank in (0, *order, 0):
        ranks[rank].look()
    assert all(rank.is_complete for rank in ranks)
    ranks[3].store.set("text", "of this start")
    assert [rank.store.get("text") for rank in ranks] == [b"of this start"] * 4
