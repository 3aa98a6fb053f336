"""Tests on a real GPU, which only `make test-gpu` collects."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("FEEDPIPE_TEST_GPU") else ["test_*.py"]
