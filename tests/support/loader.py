"""What tests take from `feedpipe.loader`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.loader import at_end as at_end
from feedpipe.loader import state_before as state_before
