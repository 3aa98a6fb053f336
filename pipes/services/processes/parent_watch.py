"""What every process of a pool does about its own end."""

from __future__ import annotations

import os
import select
import threading


def end_with_owner(control: int) -> None:
    """Ends this process soon after the other end of `control` is closed, whatever it is doing then."""
    poll = select.poll()
    poll.register(control, 0)  # nothing but the other end's closing

    def watch() -> None:
        poll.poll()
        threading.Event().wait(0.5)  # one that waits for its owner has seen it too, and ends by itself
        os._exit(1)

    threading.Thread(target=watch, name="feedpipe-watch", daemon=True).start()
