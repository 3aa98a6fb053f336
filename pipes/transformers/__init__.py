"""What the Trainer of Transformers takes: `dataset`, and `LoaderStateCallback`. Imported only on demand."""

from .dataset import dataset as dataset
from .loader_state_callback import LoaderStateCallback as LoaderStateCallback

__all__ = ["LoaderStateCallback", "dataset"]
