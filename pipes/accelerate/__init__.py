"""`PreparedLoader`: a loader for Accelerate, and for the Trainer of Transformers that builds on it."""

from .prepared_loader import PreparedLoader as PreparedLoader

__all__ = ["PreparedLoader"]
