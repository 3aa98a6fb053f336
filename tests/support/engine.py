"""What tests take from `feedpipe.engine`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.engine import ahead as ahead
from feedpipe.engine.ahead import CALLS_AHEAD as CALLS_AHEAD
from feedpipe.engine.ahead import ITEMS_AHEAD as ITEMS_AHEAD
from feedpipe.engine.ahead import REQUESTS as REQUESTS
from feedpipe.engine.ahead import Limit as Limit
from feedpipe.engine.ahead import in_order as in_order
from feedpipe.engine.ahead import read_ahead as read_ahead
from feedpipe.engine.calls import PendingCall as PendingCall
from feedpipe.engine.calls import ThreadPool as ThreadPool
from feedpipe.engine.calls import done as done
from feedpipe.engine.coroutines import CoroutinePool as CoroutinePool
from feedpipe.engine.run import _ElementsOfBlocks as _ElementsOfBlocks
from feedpipe.engine.run import elements as elements
from feedpipe.engine.seeds import Permutation as Permutation
from feedpipe.engine.stage import Stage as Stage
from feedpipe.engine.stage import bind as bind
from feedpipe.engine.stage import resolve as resolve
