"""The example of a dirty table: two ranks come to the accuracy of scikit-learn on the same division of the rows."""

from __future__ import annotations

from pathlib import Path

from ..support.torchrun import torchrun

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tumour_table.py"


def test_as_accurate_as_scikit_learn() -> None:
    process = torchrun(EXAMPLE)
    assert "PlanWarning" not in process.stderr  # of leakage, or of rows that are left out
    lines = dict(line.split("  ", 1) for line in process.stdout.splitlines() if line.startswith(("accuracy", "ranks")))
    assert lines["ranks"].strip() == "2" and float(lines["accuracy"].strip(" %")) > 90
