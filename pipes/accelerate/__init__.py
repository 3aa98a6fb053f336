"""Accelerate, and the Trainer of Transformers that builds on it: a loader as they know one."""

from .prepared_loader import PreparedLoader as PreparedLoader

__all__ = ["PreparedLoader"]
