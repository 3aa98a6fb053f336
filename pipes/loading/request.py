"""`Request`: what a consumer may request of an epoch."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Request: TypeAlias = Literal["info", "peek"] | None
"""The next element (None), the same with its `Info`, or only a look at it."""
INFO: Final = "info"
PEEK: Final = "peek"
