"""The doors to torch's `DataLoader`: `DataLoader`, which stands in for it, and datasets that give it pipes."""

from .dataloader import DataLoader as DataLoader

__all__ = ["DataLoader"]
