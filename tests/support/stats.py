"""What tests take from `feedpipe.stats`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.stats.statistics import MAX_POINTS as MAX_POINTS
from feedpipe.stats.statistics import Moments as Moments
from feedpipe.stats.statistics import QuantileSketch as QuantileSketch
