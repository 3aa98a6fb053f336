"""An operator, a source and a reading service for feedpipe, in a package of its own."""

from .background import Background
from .differences import Differences, differences
from .noise import Noise, noise

__all__ = ["Background", "Differences", "Noise", "differences", "noise"]
