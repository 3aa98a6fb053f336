"""The cost of a test counts what its children burn; a dear test without the mark fails the run in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .costs import cpu_seconds

BURN = """
import os, time

def burn(seconds):
    while sum(os.times()[:2]) < seconds:
        pass
"""

TESTS = f"""
import subprocess, sys
import pytest

def test_cheap():
    pass

def test_dear():
    subprocess.run([sys.executable, "-c", {BURN!r} + "burn(0.4)"], check=True)

@pytest.mark.slow
def test_marked():
    subprocess.run([sys.executable, "-c", {BURN!r} + "burn(0.4)"], check=True)
"""

CONFTEST = """
import tests.costs as costs
from tests.costs import *

costs.SLOW_SECONDS = costs.LIMIT_SECONDS = 0.3
"""

ROOT = Path(__file__).resolve().parents[1]


def test_a_living_child_counts() -> None:
    before = cpu_seconds()
    code = BURN + "burn(0.2)\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdin
        child.stdout.readline()
        assert cpu_seconds() - before >= 0.15  # it lives
        child.stdin.close()
    assert cpu_seconds() - before >= 0.15  # it has ended


@pytest.mark.slow
@pytest.mark.parametrize("processes", [[], ["-n", "1"]])
def test_a_dear_test_fails_the_run_in_ci(processes: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: it is\n", encoding="utf-8")
    for ci in ("true", ""):
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *processes, str(tmp_path)]
        environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
        run = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == (1 if ci else 0), run.stdout
        assert "CPU of 2 tests" in run.stdout
        assert "without the mark `slow`: test_some.py::test_dear; more than" in run.stdout
        assert "test_marked" not in run.stdout and "test_cheap" not in run.stdout
