"""`LoaderStateCallback`, for exact checkpoints of the Trainer of Transformers. Imported only on demand."""

from .loader_state_callback import LoaderStateCallback as LoaderStateCallback

__all__ = ["LoaderStateCallback"]
