"""What tests take from `feedpipe.seeing`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.seeing.report import Report as Report
