"""What a consumer may ask an epoch for."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Wish: TypeAlias = Literal["info", "peek"] | None
"""What a consumer asks an epoch for: the next element (None), the same with its `Info`, or only a look at it."""
INFO: Final = "info"
PEEK: Final = "peek"
