"""The checksums of TFRecord files: CRC-32C, rotated and shifted by a constant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...core.packages import Package

PACKAGE = Package("google_crc32c", "google-crc32c", "tfrecord", "TFRecord files are read and written")

Crcs = npt.NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_SHIFT = 0xA282EAD8
_ALL_BITS = 0xFFFFFFFF


def crc32c() -> Callable[[bytes], int]:
    """The function that computes the CRC-32C of bytes."""
    function: Callable[[bytes], int] = PACKAGE.load().value
    return function


def masked(crc: int) -> int:
    """A checksum as files hold it."""
    return ((crc >> 15 | crc << 17) + _SHIFT) & _ALL_BITS


def unmasked(stored: Crcs) -> Crcs:
    """The checksums that files hold as these numbers."""
    rotated = stored - np.uint32(_SHIFT)
    return rotated >> np.uint32(17) | rotated << np.uint32(15)


def crcs_of_lengths(lengths: npt.NDArray[np.uint8]) -> Crcs:
    """The CRC-32C of each row of eight bytes."""
    crcs = np.full(len(lengths), _ALL_BITS, np.uint32)
    for column in lengths.T:
        crcs = _TABLE[(crcs ^ column) & 0xFF] ^ crcs >> np.uint32(8)
    return crcs ^ np.uint32(_ALL_BITS)


def gather(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint8]:
    """The `size` bytes at each of some places, as rows."""
    if not len(at):
        return np.zeros((0, size), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, size)[at]


def _table() -> Crcs:
    """The CRC of each byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    return table


_TABLE = _table()
