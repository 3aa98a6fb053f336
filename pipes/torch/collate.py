"""What only torch can say of collation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import default_collate

from ..core.rows import Array
from ..core.tensor_data import Stack


def from_array(array: Array | Stack) -> torch.Tensor:
    """A tensor over the memory of `array`; a stack is made first."""
    return torch.from_numpy(np.asarray(array))


def by_default(values: Sequence[object]) -> object:
    """What torch's own function makes of `values`, or its error."""
    return default_collate(list(values))


def promoted(arrays: Sequence[object]) -> torch.Tensor:
    """Arrays of several dtypes, in the one that torch has for them."""
    return torch.stack([torch.as_tensor(np.array(array)) for array in arrays])
