"""Where the records of quoted text end."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_CR, _LF = 13, 10


class Ends(NamedTuple):
    """Where records end."""

    ends: npt.NDArray[np.int64]
    """The byte after each line break outside quotes."""
    within: npt.NDArray[np.int64]
    """The byte after each line break inside quotes."""
    unclosed: bool
    """Whether the data ends inside quotes."""


def record_ends(data: bytes, delimiter: bytes, quote: bytes | None) -> Ends:
    r"""Where the records of `data` end, which begins with a record; a lone `\r` at its end is not taken for one.

    A quote opens a field only as its first character, and is closed by the next quote that is not doubled: as RFC 4180,
    Python's csv and Arrow have it.
    """
    bytes_ = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(bytes_ == _LF)
    if b"\r" in data:
        lone = (bytes_[:-1] == _CR) & (bytes_[1:] != _LF)
        breaks = np.union1d(breaks, np.flatnonzero(lone))
    if quote is None or quote not in data:
        return Ends(breaks + 1, breaks[:0], False)
    # Where each odd quote stands at the beginning of a field (or doubles the one before), quotes simply alternate.
    places = np.flatnonzero(bytes_ == quote[0])
    openers = places[::2]
    before = bytes_[openers - 1]  # of the first byte: the last, which is no matter
    begins = (before == delimiter[0]) | (before == _LF) | (before == _CR) | (before == quote[0]) | (openers == 0)
    if not begins.all():
        return _by_regions(data, breaks, delimiter, quote)
    outside = np.searchsorted(places, breaks) % 2 == 0
    return Ends(breaks[outside] + 1, breaks[~outside] + 1, len(places) % 2 == 1)


def last_end(data: bytes, delimiter: bytes, quote: bytes | None) -> int:
    """Where the last whole record of `data` ends; 0 if none does."""
    if (quote is None or quote not in data) and (end := data.rfind(b"\n") + 1):
        return end
    ends = record_ends(data, delimiter, quote).ends
    return int(ends[-1]) if len(ends) else 0


def _by_regions(data: bytes, breaks: npt.NDArray[np.int64], delimiter: bytes, quote: bytes) -> Ends:
    # Slower, and right for text with quotes inside of fields, such as 5" nails. The quote comes first in the pattern:
    # `re` then finds candidates with memchr.
    q, d = re.escape(quote), re.escape(delimiter)
    pattern = rb"%b(?:(?<=\A%b)|(?<=[%b\r\n]%b))[^%b]*(?:%b%b[^%b]*)*(?:%b|(\Z))" % (q, q, d, q, q, q, q, q, q)
    spans: list[tuple[int, int]] = []
    unclosed = False
    for match in re.finditer(pattern, data):
        spans.append(match.span())
        unclosed = match.group(1) is not None
    regions = np.array(spans, np.int64).reshape(-1, 2)
    region = np.searchsorted(regions[:, 0], breaks, "right") - 1
    inside = (region >= 0) & (breaks < regions[region, 1]) if len(regions) else np.zeros(len(breaks), bool)
    return Ends(breaks[~inside] + 1, breaks[inside] + 1, unclosed)
