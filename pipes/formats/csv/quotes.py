"""Finds where the records of quoted text end."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_CR, _LF = 13, 10


class RecordEnds(NamedTuple):
    """The line breaks of some text, divided by whether they end a record."""

    ends: npt.NDArray[np.int64]
    """The byte after each line break outside quotes."""
    quoted_breaks: npt.NDArray[np.int64]
    """The byte after each line break inside quotes."""
    unclosed: bool
    """Whether the text ends inside quotes."""


def record_ends(data: bytes, delimiter: bytes, quote: bytes | None) -> RecordEnds:
    r"""Find the ends of records in `data`, which begins with a record; a lone `\r` at its end does not end one.

    A quote opens a field only as its first character, and the next quote that is not doubled closes it. RFC 4180,
    Python's csv and Arrow have the same rule.
    """
    bytes_ = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(bytes_ == _LF)
    if b"\r" in data:
        lone = (bytes_[:-1] == _CR) & (bytes_[1:] != _LF)
        breaks = np.union1d(breaks, np.flatnonzero(lone))
    if quote is None or quote not in data:
        return RecordEnds(breaks + 1, breaks[:0], False)
    # If each odd quote stands at the beginning of a field (or doubles the one before), quotes alternate: odd ones open.
    places = np.flatnonzero(bytes_ == quote[0])
    openers = places[::2]
    before = bytes_[openers - 1]  # for an opener at 0 this is the last byte, which does not matter
    begins = (before == delimiter[0]) | (before == _LF) | (before == _CR) | (before == quote[0]) | (openers == 0)
    if not begins.all():
        return _ends_by_regions(data, breaks, delimiter, quote)
    outside = np.searchsorted(places, breaks) % 2 == 0
    return RecordEnds(breaks[outside] + 1, breaks[~outside] + 1, len(places) % 2 == 1)


def last_record_end(data: bytes, delimiter: bytes, quote: bytes | None) -> int:
    """Where the last whole record of `data` ends; 0 if none does."""
    if (quote is None or quote not in data) and (end := data.rfind(b"\n") + 1):
        return end
    ends = record_ends(data, delimiter, quote).ends
    return int(ends[-1]) if len(ends) else 0


def unclosed_lines(data: bytes, delimiter: bytes, quote: bytes) -> list[tuple[int, int]]:
    """Where each line begins and ends that has a quote which is not closed on it; each line is a record."""
    ends = record_ends(data, delimiter, None).ends
    q, d = re.escape(quote), re.escape(delimiter)
    pattern = rb"%b(?:(?<=\A%b)|(?<=[%b\r\n]%b))[^%b\r\n]*(?:%b%b[^%b\r\n]*)*(?:%b|(\Z|(?=[\r\n])))"
    matches = re.finditer(pattern % (q, q, d, q, q, q, q, q, q), data)
    lines = np.searchsorted(ends, [match.start() for match in matches if match.group(1) is not None], "right")
    bounds = [0, *ends.tolist(), len(data)]
    return [(bounds[line], bounds[line + 1]) for line in lines.tolist()]


def _ends_by_regions(data: bytes, breaks: npt.NDArray[np.int64], delimiter: bytes, quote: bytes) -> RecordEnds:
    # Slower, but right for text with quotes inside fields, such as 5" nails. The pattern begins with the quote, so `re`
    # finds candidates with memchr.
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
    return RecordEnds(breaks[~inside] + 1, breaks[inside] + 1, unclosed)
