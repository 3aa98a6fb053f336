"""What tests take from `feedpipe.seeing`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.core import process as process
from feedpipe.core.findings import Finding as Finding
from feedpipe.seeing import drawing as drawing
from feedpipe.seeing import record as record
from feedpipe.seeing import report_page as report_page
from feedpipe.seeing import verdict as verdict
from feedpipe.seeing.diff import compared as compared
from feedpipe.seeing.order_digest import digest_of as digest_of
from feedpipe.seeing.record import Record as Record
from feedpipe.seeing.report import Report as Report
from feedpipe.seeing.rules import machine as machine
from feedpipe.seeing.tuning import Tuning as Tuning
from feedpipe.seeing.tuning import with_concurrency as with_concurrency
