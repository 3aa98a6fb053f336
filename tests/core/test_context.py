"""What a run tells its operators."""

from __future__ import annotations

from feedpipe.extensions import Context


def test_a_key_stays_what_it_was() -> None:
    """A state that was saved earlier would else go on with other draws."""
    assert Context(seed=7, epoch=1, rounds=(2,), shard=3).key("deal of shuffle-1").tolist() == [
        2059712553836458306,
        5282958439806486663,
    ]
