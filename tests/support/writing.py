"""What tests take from `feedpipe.writing`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.writing import _tables as _tables
