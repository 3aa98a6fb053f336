"""Runs a script as two ranks of `torchrun`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_on_two_ranks(script: Path, *arguments: str) -> None:
    """Runs it to its end, which must be a success."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
