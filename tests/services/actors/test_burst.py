"""A burst brings what was put into it, and no element of it shares memory with the next burst."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from feedpipe.testing import same

from ...support.examples import examples
from ...support.services import MAX_BURST_BYTES, BurstWriter, Packer, burst_items, unpack

ELEMENTS = st.lists(
    st.one_of(
        st.none(),
        st.integers(),
        st.text(),
        st.integers(0, 5000).map(lambda size: {"x": np.arange(size), "y": np.arange(size % 7, dtype=np.uint8)}),
        st.integers(MAX_BURST_BYTES // 3, MAX_BURST_BYTES * 2).map(lambda size: np.full(size, size % 251, np.uint8)),
    ),
    max_size=8,
)


@settings(max_examples=examples(40), deadline=None)
@given(ELEMENTS)
def test_bursts_bring_all_items_in_their_order(elements: list[object]) -> None:
    packer, writer = Packer(), BurstWriter()
    arrived: list[object] = []

    def arrive() -> None:
        for item in burst_items(writer.burst([])):
            stream, *regions = item.parts
            arrived.append(unpack(stream, map(bytearray, regions)))
            assert (item.kind, item.shard, item.cursor) == ("step", 3, [None, len(arrived), 0])
        writer.begin()

    for number, element in enumerate(elements, 1):
        item = "step", 3, [None, number, 0], packer.pack(element)
        if not writer.add(*item):
            assert writer.heads, "an item has room in an empty burst"
            arrive()
            assert writer.add(*item)
    assert writer.burst([])[1].nbytes <= MAX_BURST_BYTES or len(writer.heads) == 1
    arrive()
    assert same(arrived, elements)


def test_items_without_content_need_no_room() -> None:
    writer = BurstWriter()
    assert writer.add("ended", 1, None)
    assert writer.add("step", 2, [None, 1, 0], Packer().pack("a"))
    first, second = burst_items(writer.burst([]))
    assert first == ("ended", 1, None, ())
    assert unpack(second.parts[0], ()) == "a"
