"""Errors name operator, row and line, whatever the user's code does."""

from __future__ import annotations

import pytest

import feedpipe as fp
from feedpipe.errors import RowError


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def mute(row: int) -> int:
    if row == 7:
        raise MuteError
    return row


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_whose_text_cannot_be_shown_keeps_its_address(workers: int) -> None:
    words = r"`\.map\(mute\)` failed with MuteError: \(its text .* `__str__` raises ValueError\)\n  on .*, row 8\n  at "
    loader = fp.Loader(fp.from_sequence(range(20)).map(mute), workers=workers)
    with loader, pytest.raises(RowError, match=words) as info:
        list(loader)
    assert type(info.value.__cause__) is MuteError


def test_an_error_of_a_decoder_whose_text_cannot_be_shown() -> None:
    def decode(data: bytes) -> object:
        raise MuteError

    with pytest.raises(RowError, match=r"`x` cannot be decoded: MuteError: \(its text .*\n  on from_sequence, row 1"):
        list(fp.from_sequence([{"x": b"1"}]).decode(decoders={"x": decode}))
