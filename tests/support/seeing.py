"""What tests take from `feedpipe.seeing`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.core import process as process
from feedpipe.core.findings import Finding as Finding
from feedpipe.seeing import check as check
from feedpipe.seeing.report import Report as Report
from feedpipe.seeing.tuning import Tuning as Tuning
from feedpipe.seeing.tuning import with_concurrency as with_concurrency
