"""The environment of the clients has what its constraints pin, and feedpipe imports none of it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

CLIENTS = [
    "accelerate",
    "datasets",
    "keras",
    "lightning",
    "ray",
    "torch",
    "torchdata",
    "transformers",
    "trl",
    "webdataset",
]


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_are_installed(name: str) -> None:
    assert importlib.metadata.version(name)


def test_feedpipe_imports_no_client() -> None:
    code = f"import sys, feedpipe; sys.exit(any(name in sys.modules for name in {CLIENTS}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
