"""States changed by hand."""

from __future__ import annotations

from typing import Any

from ..support.loading import checksum, signature_checksum


def signed(state: dict[str, Any]) -> dict[str, Any]:
    """`state` with the checksum that fits its other entries."""
    return {**state, "checksum": checksum(signature_checksum(state), state)}
