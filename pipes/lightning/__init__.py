"""`ExactResume`, for exact checkpoints of Lightning. Imported only on demand."""

from .exact_resume import ExactResume as ExactResume

__all__ = ["ExactResume"]
