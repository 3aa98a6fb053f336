"""The rule that one thread at a time uses an iterator."""

from __future__ import annotations

ONE_THREAD = (
    "only one thread at a time may use an iterator, because it counts what one consumer took, and another thread waits "
    "for an element now; take elements in one thread and hand them on, or use a lock"
)


def is_executing(error: ValueError) -> bool:
    """Whether `send`, `next` or `close` itself raised it, because another thread runs the generator."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None
