"""`Meter`: how far a run has opened what is divided among shards, so that the rest can be divided anew."""

from __future__ import annotations

from typing import TypeAlias, cast

from .cursor import Json

Mark: TypeAlias = "list[Json]"
"""How far a run has opened a stream: the round of the `repeat` around, the number of a segment, and the places of it
that are open; if the stream is read row by row, a cursor of it too. All places before these are open."""
Marks: TypeAlias = "dict[str, Json]"
"""The mark of each stream that a run has opened, by the number of the stream."""


class Meter:
    """What a run has opened of each stream: an operator that hands out places notes them before it yields their rows.

    No other operator has a part in this. Whatever comes out of a run was made of places that were handed out to it,
    however far threads and windows run ahead.

    Attributes:
        marks: is replaced at each note, never changed; so a state may keep it.
    """

    def __init__(self, marks: Marks | None = None) -> None:
        self.marks: Marks = marks or {}

    def note(self, stream: str, rounds: tuple[int, ...], segment: int, places: int, *cursor: Json) -> None:
        """In this round, all segments before `segment` are open, and so many places of it."""
        mark: Mark = [rounds[0] if rounds else 0, segment, places]
        last = self.marks.get(stream)
        if isinstance(last, list) and last >= mark:
            return
        self.marks = {**self.marks, stream: [*mark, *cursor]}

    def add(self, marks: Marks) -> None:
        """Notes what a part of the run in another process has opened."""
        for stream, mark in marks.items():
            number, segment, places = cast("list[int]", mark)[:3]
            self.note(stream, (number,), segment, places, *cast("Mark", mark)[3:])
