"""`DataLoader`, a replacement for torch's, and the datasets by which torch's own reads pipes."""

from .dataloader import DataLoader as DataLoader

__all__ = ["DataLoader"]
