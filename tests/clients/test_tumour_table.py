"""The example of a dirty table: two ranks come to the accuracy of scikit-learn on the same division of the rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tumour_table.py"


def test_as_accurate_as_scikit_learn() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run([*torchrun, EXAMPLE], capture_output=True, text=True, timeout=250, env=environment)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "PlanWarning" not in process.stderr  # of leakage, or of rows that are left out
    lines = dict(line.split("  ", 1) for line in process.stdout.splitlines() if line.startswith(("accuracy", "ranks")))
    assert lines["ranks"].strip() == "2" and float(lines["accuracy"].strip(" %")) > 90
