"""The code that needs torch. Its modules import torch at their head; others import them only when they run."""

from ..core.process import import_whole

import_whole("torch")
