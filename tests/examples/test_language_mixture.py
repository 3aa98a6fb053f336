"""The example at a small size: the mixture keeps its proportion, and a stopped job goes on with the same tokens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "language_mixture.py"


@pytest.mark.slow
def test_two_workers_go_on_with_the_same_tokens() -> None:
    arguments = ["--steps", "40", "--stop-at", "17", "--length", "128", "--workers", "2"]
    done = subprocess.run([sys.executable, EXAMPLE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(re.findall(r"^(.+?)  +(.+)$", done.stdout, re.MULTILINE))
    assert table["same tokens"] == "yes"
    share = float(table["documents"].split(", ")[1].split("%")[0])
    assert 60 < share < 80
