"""What tests take from `feedpipe.sources`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.sources import index as index
from feedpipe.sources import read_delta as read_delta
from feedpipe.sources import read_files as read_files
from feedpipe.sources.from_dataset import FromStream as FromStream
from feedpipe.sources.from_dataset import _keeps_state as _keeps_state
