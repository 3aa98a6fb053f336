"""What tests take from `feedpipe.engine`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.engine import ahead as ahead
from feedpipe.engine.run import elements as elements
from feedpipe.engine.seeds import Permutation as Permutation
from feedpipe.engine.stage import Stage as Stage
from feedpipe.engine.stage import bind as bind
from feedpipe.engine.stage import resolve as resolve
