"""A channel whose ends are closed in any order."""

from __future__ import annotations

import socket

from ...support.services import Channel


def test_a_message_after_the_end_of_this_side_is_discarded() -> None:
    """A run that was dropped may end after its pool."""
    here, there = socket.socketpair()
    channel = Channel(here)
    there.close()
    channel.close()
    channel.post(("stop",))
    assert channel.flush()
