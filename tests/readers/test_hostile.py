"""Files that chance or malice has changed: rows or an error of the user, within 30 CPU seconds and a GiB of memory.

Each kind is read in a process of its own, which may die of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from .bombs import BOMBS
from .cases import CASES

pytestmark = pytest.mark.slow

MUTANTS = 60 * int(os.environ.get("SOAK", "1"))
SEED = 0


def check(kind: str, *arguments: str, count: int) -> None:
    command = [sys.executable, "-m", "tests.readers.hostile", kind, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = result.stdout.splitlines()
    assert result.returncode == 0, f"{lines[-1:]} ended the process: {result.stderr[-3000:]}"
    outcomes = [json.loads(line) for line in lines if not line.startswith("begin")]
    assert len(outcomes) == count
    for name, outcome, seconds, peak in outcomes:
        assert not outcome.startswith("RAW"), (name, outcome)
        assert seconds < 30, (name, outcome, seconds)
        assert peak < 2**30, (name, outcome, peak)


@pytest.mark.parametrize("kind", CASES)
def test_mutants(kind: str) -> None:
    check("mutants", kind, str(SEED), str(MUTANTS), count=MUTANTS)


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs(kind: str) -> None:
    check("bomb", kind, count=1)
