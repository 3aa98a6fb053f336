"""Tests in real trainers and beside other loaders, which only the environment of `make test-clients` has."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("lightning") else ["test_*.py"]

# Clients warn of much that is not ours; our own warnings stay errors.
WARNINGS = pytest.mark.filterwarnings(
    "ignore",
    "error::feedpipe.errors.PlanWarning",
    "error::feedpipe.errors.StateWarning",
    "error::feedpipe.errors.WorkerWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(WARNINGS, append=False)  # those of a test come after it
