"""What a type checker tells the user: the types along a chain, and the mistakes it refuses.

The files of `cases/` are checked, never run. mypy and pyright must each report exactly the lines that
carry the comment `# expect-error`, so `assert_type` in them holds and every planted mistake is found.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(__file__).resolve().parent / "cases"
BIN = Path(sys.executable).parent

Report = dict[tuple[str, int], str]


def run(*command: object) -> str:
    """Return what a checker prints; to find errors is its work, to stumble is not."""
    program, *arguments = (str(word) for word in command)
    done = subprocess.run([BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy() -> Report:
    """Return what mypy reports on the cases, by file and line."""
    # Errors in the package itself are the business of `make check`.
    pattern = rf"^{re.escape(str(CASES.relative_to(ROOT)))}/(.+?):(\d+): error: (.*)$"
    found = re.findall(pattern, run("mypy", CASES), re.MULTILINE)
    return {(name, int(line)): text for name, line, text in found}


def pyright() -> Report:
    """Return what pyright reports on the cases, by file and line."""
    found = json.loads(run("pyright", "--outputjson", "--project", CASES.parent))["generalDiagnostics"]
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"] for one in found}


def expected() -> set[tuple[str, int]]:
    """Return the lines that carry the mark."""
    return {
        (path.name, number)
        for path in CASES.glob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# expect-error")
    }


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_types_and_mistakes(checker: Callable[[], Report]) -> None:
    """One run over all cases: most of a checker's time goes into reading torch and pyarrow."""
    reported, marked = checker(), expected()
    surplus = [f"{place}: {text}" for place, text in reported.items() if place not in marked]
    missing = sorted(marked - reported.keys())
    assert not surplus, "reported, but not marked:\n" + "\n".join(surplus)
    assert not missing, "marked, but not reported"
