"""What needs torch. Its modules import torch at their head, and are themselves imported only when they run."""

from __future__ import annotations


class Unfit(ValueError):
    """Rows of a batch that no tensor can hold together; the operator adds line and origin and makes it a `DataError`."""
