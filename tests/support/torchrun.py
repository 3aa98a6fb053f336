"""Runs programs as ranks of `torchrun`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def torchrun(*command: str | Path, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """Runs a script, or a module after `-m`, to its end, which must be a success."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *command]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # without it, torchrun prints a warning
    done = subprocess.run(launch, capture_output=True, text=True, check=False, timeout=900, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
