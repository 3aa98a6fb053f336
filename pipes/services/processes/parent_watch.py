"""What ends a process of a pool when its owner is gone."""

from __future__ import annotations

import os
import select
import threading

GRACE_SECONDS = 0.5


def exit_with_owner(control: int) -> None:
    """Ends this process soon after the other end of `control` is closed, whatever the process is doing."""
    poll = select.poll()
    poll.register(control, 0)  # without events, `poll` reports only that the other end is closed

    def watch() -> None:
        poll.poll()
        threading.Event().wait(GRACE_SECONDS)  # a process that waits for its owner notices too, and ends by itself
        os._exit(1)

    threading.Thread(target=watch, name="feedpipe-watch", daemon=True).start()
