"""Lightning: what makes its checkpoints exact. Imported only when asked for."""

from .exact_resume import ExactResume as ExactResume

__all__ = ["ExactResume"]
