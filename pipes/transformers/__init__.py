"""Transformers: what makes the checkpoints of its Trainer exact. Imported only when asked for."""

from .loader_state_callback import LoaderStateCallback as LoaderStateCallback

__all__ = ["LoaderStateCallback"]
