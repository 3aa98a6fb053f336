"""`Cardinality`: an estimate of the number of distinct values, in 16 KiB, whatever that number is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arrow import numpy_array
from ..core.context import mixed
from ..core.lazy import pa

INDEX_BITS = 14
RANK_BITS = 64 - INDEX_BITS
REGISTERS = 1 << INDEX_BITS
ERROR = 1.04 / REGISTERS**0.5
"""The standard deviation of an estimate, as a part of it: 0.8%."""


class Cardinality:
    """A sketch of a set: for each of 16,384 parts of its hashes, the longest run of zeros at the beginning of one.

    It is HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007) with hashes of 64 bits, and with the estimate of Ertl
    (New cardinality estimation algorithms for HyperLogLog sketches, 2017), which has no bias for small sets. Sketches
    join without loss.

    Attributes:
        ranks: the length of that run plus one, for each part.
    """

    def __init__(self, ranks: npt.NDArray[np.uint8]) -> None:
        self.ranks = ranks

    @staticmethod
    def of(values: Any) -> Cardinality:
        """The sketch of an Arrow array of numbers or text, without nulls."""
        hashes = _hashes(values)
        low = (hashes & np.uint64((1 << RANK_BITS) - 1)).astype(np.float64)  # exact: a double holds 53 bits
        ranks = (RANK_BITS + 1 - np.frexp(low)[1]).astype(np.uint8)
        most = np.zeros(REGISTERS, np.uint8)
        np.maximum.at(most, (hashes >> np.uint64(RANK_BITS)).astype(np.int64), ranks)
        return Cardinality(most)

    @staticmethod
    def merged(parts: Sequence[Cardinality]) -> Cardinality:
        """The sketch of the union of all parts, at least one."""
        return Cardinality(np.maximum.reduce([part.ranks for part in parts]))

    @property
    def estimate(self) -> int:
        """The number of distinct values, within about 2%."""
        counts = np.bincount(self.ranks, minlength=RANK_BITS + 2).tolist()
        total = REGISTERS * _tau(1 - counts[RANK_BITS + 1] / REGISTERS)
        for rank in range(RANK_BITS, 0, -1):
            total = 0.5 * (total + counts[rank])
        total += REGISTERS * _sigma(counts[0] / REGISTERS)
        return round(REGISTERS**2 / (2 * math.log(2) * total))


def _sigma(share: float) -> float:
    """Corrects for parts without values."""
    if share == 1:
        return math.inf
    result, last, factor = share, -1.0, 1.0
    while result != last:
        share *= share
        last, result, factor = result, result + share * factor, 2 * factor
    return result


def _tau(share: float) -> float:
    """Corrects for parts whose run is the longest that there is."""
    if share in (0, 1):
        return 0.0
    result, last, factor = 1 - share, -1.0, 1.0
    while result != last:
        share, factor = math.sqrt(share), factor / 2
        last, result = result, result - (1 - share) ** 2 * factor
    return result / 3


def _hashes(values: Any) -> npt.NDArray[np.uint64]:
    if pa.types.is_integer(values.type):
        return mixed(numpy_array(values).astype(np.int64).view(np.uint64))
    if pa.types.is_floating(values.type):
        numbers = numpy_array(values).astype(np.float64) + 0.0  # -0.0 is 0.0
        return mixed(numbers.view(np.uint64))
    texts = (str(value).encode("utf-8", "surrogatepass") for value in values.to_pylist())
    return np.frombuffer(b"".join(blake2b(text, digest_size=8).digest() for text in texts), np.uint64)
