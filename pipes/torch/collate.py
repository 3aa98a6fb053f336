"""The steps of collation that only torch can do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import default_collate

from ..core.column import Array
from ..core.tensor_data import Stack


def from_array(array: Array | Stack) -> torch.Tensor:
    """A tensor over the memory of `array`, or over the array that a `Stack` makes."""
    return torch.from_numpy(np.asarray(array))


def collate_by_default(values: Sequence[object]) -> object:
    """The result of torch's own function, or its error."""
    return default_collate(list(values))


def stack_promoted(arrays: Sequence[object]) -> torch.Tensor:
    """Arrays of several dtypes as one tensor of the dtype that torch promotes them to."""
    return torch.stack([torch.as_tensor(np.array(array)) for array in arrays])
