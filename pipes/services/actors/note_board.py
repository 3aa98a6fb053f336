"""`NoteBoard`: what actors were running when they died."""

from __future__ import annotations


class NoteBoard:
    """Keeps the last note of each worker, in an actor of its own, which survives them."""

    def __init__(self) -> None:
        self._notes: dict[int, str] = {}

    def write(self, number: int, note: str) -> None:
        self._notes[number] = note

    def read(self, number: int) -> str:
        """The last note of a worker; empty if it has left none."""
        return self._notes.get(number, "")
