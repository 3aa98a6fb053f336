"""What tests take from `feedpipe.fitting`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.fitting import fit as fit
from feedpipe.fitting.fit import ColumnSummaries as ColumnSummaries
from feedpipe.fitting.fit import SummarizeRows as SummarizeRows
