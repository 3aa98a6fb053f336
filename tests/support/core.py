"""What tests take from `feedpipe.core`; a module that moves changes this file alone."""

from __future__ import annotations

import weakref

from feedpipe.core import process as process
from feedpipe.core import progress_bar as progress_bar
from feedpipe.core import system as system
from feedpipe.core import times as times
from feedpipe.core.block import AdaptiveBlockSize as AdaptiveBlockSize
from feedpipe.core.block import OneRow as OneRow
from feedpipe.core.block import nbytes as nbytes
from feedpipe.core.checks import digest as digest
from feedpipe.core.context import NoWork as NoWork
from feedpipe.core.context import Pacing as Pacing
from feedpipe.core.context import ProcessContext as ProcessContext
from feedpipe.core.context import RowShare as RowShare
from feedpipe.core.context import RowsRequest as RowsRequest
from feedpipe.core.context import Tracing as Tracing
from feedpipe.core.context import mixed as mixed
from feedpipe.core.cursor import checked_cursor as checked_cursor
from feedpipe.core.ending import _live
from feedpipe.core.ending import join as join
from feedpipe.core.graph import names as names
from feedpipe.core.graph import sent as sent
from feedpipe.core.graph import walk as walk
from feedpipe.core.operator import MAX_DEPTH as MAX_DEPTH
from feedpipe.core.operator import fill_unknown as fill_unknown
from feedpipe.core.rows import Stack as Stack
from feedpipe.core.rows import TensorData as TensorData
from feedpipe.core.rows import concat as concat
from feedpipe.core.rows import pick as pick
from feedpipe.core.rows import signature as signature
from feedpipe.core.rows import take as take
from feedpipe.core.rows import take_joined as take_joined
from feedpipe.core.shared_rows import shared as shared
from feedpipe.core.taken import Taken as Taken
from feedpipe.core.times import Clock as Clock
from feedpipe.core.times import RunTimes as RunTimes
from feedpipe.core.times import Table as Table
from feedpipe.core.times import measured_blocks as measured_blocks


def end_dropped() -> None:
    """End what was dropped, or wait until its thread has."""
    while dropped := [ending for ending in list(_live.values()) if weakref.ref.__call__(ending) is None]:
        for ending in dropped:  # an epoch is freed when its iterator is
            ending()
