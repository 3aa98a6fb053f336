"""Fixtures of the tests of `cache`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.core import AdaptiveBlockSize
from ...support.operators import _cached_rows
from .cached_pipes import Counted


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files, as many on each run: the sizes of blocks follow no clock."""
    monkeypatch.setattr(AdaptiveBlockSize, "rows", lambda self: 16)
    monkeypatch.setattr(_cached_rows, "FILE_BYTES", 2000)


@pytest.fixture
def calls(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "calls")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"
