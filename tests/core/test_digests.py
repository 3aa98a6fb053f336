"""Digests: the same for equal values however they are stored, and the same for ever."""

from __future__ import annotations

import datetime
import decimal
import uuid

import numpy as np

from ..support.core import digest
from ..support.operators import digest_of


def test_they_never_change() -> None:
    """Another digest would move rows of running projects to another part."""
    expected = {
        0: 16294208416658607535,
        -1: 0,
        2**64: 1331783653683805064,
        0.5: 8006158679917050249,
        None: 2428219950508312093,
        "": 17909611376780542444,
        "straße": 2681150327522534582,
        b"\x00\xff": 4025052718512733378,
        (1, "a"): 1548421908631066440,
        datetime.datetime(2026, 1, 2, 3, 4): 3872745950233588064,
        decimal.Decimal("1.50"): 3268946354111460076,
        uuid.UUID(int=7): 15663761908287763301,
    }
    assert {value: digest_of(value) for value in expected} == expected
    assert digest_of({"b": [1.5], "a": None}) == 6140454704019127647
    assert digest_of(np.arange(3, dtype=">i4")) == 6440110335893098240


def test_digests_in_fingerprints_never_change() -> None:
    """They are in the states of running projects."""
    assert digest({"a": [1, 2.5, None]}) == "#fe857ee1a440"
