"""Collation: a batch to tensors as torch's `default_collate` makes them, but fast for tables and arrays.

torch is needed only where it alone has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...core.rows import Array, Column, Rows
from ...errors import UnfitError
from .._columns import no_batch
from .arrow import arrays
from .misfits import NoTensorError, column_repair
from .rules import Rules, leaves, tensor_data
from .values import collated


def collate(batch: object, rules: Rules) -> object:
    """`batch`, a sequence of rows, as tensors with one more dimension at the front."""
    if isinstance(batch, Rows):
        columns = batch.columns if rules.leaf is tensor_data else batch.copies()  # `TensorData` is copied on its way
        return {name: _column(columns, name, rules) for name in columns}
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        raise no_batch(batch)
    if not batch:
        raise UnfitError("a batch is empty, and so has no shape; leave such batches out with `.filter(len)`")
    return collated(batch, "", rules)


def _column(columns: Mapping[str, Column], name: str, rules: Rules) -> object:
    column = columns[name]
    if not isinstance(column, np.ndarray):
        try:
            return leaves(arrays(column, name, rules), rules)
        except NoTensorError as error:
            raise UnfitError(f"{error}; {column_repair([*columns].index(name), name, column.type)}") from error
    if column.dtype.kind in "SU":
        return column.tolist()
    if column.dtype.kind == "O":
        return collated(column.tolist(), name, rules)
    if column.dtype.kind not in "biufc":
        raise UnfitError(f"{NoTensorError(name, column.dtype)}; turn it into numbers, or leave it out")
    return rules.leaf(_native(column))


def _native(array: Array) -> Array:
    """`array` in the byte order of this machine, the only one that torch knows."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
