"""`Info`: what a loader says of one element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..core.cursor import Json
from ..errors import LoaderError, Origin
from .replay import ElementCursor, cursor_of_indexed, cursor_of_streamed, lineage_at
from .schedule import Schedule
from .state import Progress, State


class Info:
    """What `with_info()` says of one element. It stays right if the consumer takes further elements.

    Attributes:
        epoch: the epoch of the element.
        step: how many elements of the epoch this rank had taken, this one included.
        valid: a bool for each row of the element, False if the row is padding; one bool for an element without rows.
    """

    def __init__(
        self,
        schedule: Schedule,
        progress: Progress,
        after: Progress,
        valid: npt.NDArray[np.bool_],
        place: tuple[int, Json] | None,
    ) -> None:
        self._schedule = schedule
        self._progress = progress
        self._after = after
        self._place = place  # the shard, and its plain cursor before the element; None for padding
        self.epoch = progress.epoch
        self.step = progress.step
        self.valid = valid

    def state_dict(self) -> State:
        """The state of the loader right after this element."""
        return self._schedule.state(self._after)

    @property
    def cursor(self) -> ElementCursor:
        """Where the element is, as plain JSON: `fp.replay(pipe, info.cursor)` makes it again, alone.

        Raises:
            LoaderError: the element is padding, which repeats an element that this rank has taken before.
        """
        plan, progress = self._schedule.plan, self._progress
        if self._place is None:
            raise LoaderError("padding has no cursor of its own, because it repeats an earlier element of this rank")
        fingerprint = str(self._schedule.signature.entries["pipe"])
        if plan.indexed:
            return cursor_of_indexed(plan, fingerprint, replace(progress, taken=progress.taken - 1))
        return cursor_of_streamed(plan, fingerprint, progress, *self._place)

    def lineage(self) -> list[Origin]:
        """Return file and row of each row that the element is made of, in the order of its rows.

        It costs nothing if it is not called. Of an indexed pipe it follows the positions to the source, and reads
        nothing; of a stream it makes the element again in this thread, as `fp.replay` does.

        Example:
            >>> import feedpipe as fp
            >>> loader = fp.Loader(fp.from_sequence("abcd").shuffle().batch(2), seed=1)
            >>> batch, info = next(loader.with_info())
            >>> ["abcd"[origin.row - 1] for origin in info.lineage()] == batch
            True

        Raises:
            LoaderError: the element is padding.
        """
        return lineage_at(self._schedule.plan, self.cursor)
