"""What needs torch. Its modules import torch at their head, and are themselves imported only when they run."""

from __future__ import annotations


class UnfitError(ValueError):
    """Rows of a batch that fit into no tensor; the operator adds line and origin and makes it a `DataError`."""
