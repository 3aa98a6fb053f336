"""`Info`: what a loader says of one element."""

from __future__ import annotations

from collections.abc import Mapping, Sized

import numpy as np
import numpy.typing as npt

from .schedule import Schedule
from .state import Progress, State


class Info:
    """What `with_info()` says of one element. It stays right if the consumer takes further elements.

    Attributes:
        epoch: the epoch of the element.
        step: how many elements of the epoch this rank had taken, this one included.
        valid: a bool for each row of the element, False if the row is padding; one bool for an element without rows.
    """

    def __init__(self, schedule: Schedule, progress: Progress, after: Progress, valid: npt.NDArray[np.bool_]) -> None:
        self._schedule = schedule
        self._after = after
        self.epoch = progress.epoch
        self.step = progress.step
        self.valid = valid

    def state_dict(self) -> State:
        """The state of the loader right after this element."""
        return self._schedule.state(self._after)


def row_shape(element: object) -> int | tuple[()]:
    """How many rows an element has; () if it is one row."""
    if isinstance(element, Mapping):
        element = next(iter(element.values()), ())
    elif isinstance(element, (list, tuple)) and element and hasattr(element[0], "shape"):
        element = element[0]  # the columns of collated pairs
    elif isinstance(element, tuple):
        return ()
    shape = getattr(element, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else ()
    return len(element) if isinstance(element, Sized) and not isinstance(element, (str, bytes)) else ()
