"""`TensorData`: an array that its consumer gets as a tensor, so that who makes it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TensorData:
    """What a worker sends in place of a tensor: its values, in memory of their own."""

    array: npt.NDArray[np.generic]
