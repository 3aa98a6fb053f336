"""What a type checker tells the user: the types along a chain, and the mistakes it refuses.

The files of `cases/` are checked, never run. mypy and pyright must each report exactly the lines with the
comment `# expect-error`: so every `assert_type` is true, and every planted mistake is found.
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
    """Return what a checker prints. It may report errors, but must not fail itself."""
    program, *arguments = (str(word) for word in command)
    process = subprocess.run([BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode in (0, 1), process.stdout + process.stderr
    return process.stdout


def mypy() -> Report:
    """Return what mypy reports on the cases, by file and line."""
    # `make check` reports errors in the package itself.
    pattern = rf"^{re.escape(str(CASES.relative_to(ROOT)))}/(.+?):(\d+): error: (.*)$"
    errors = re.findall(pattern, run("mypy", CASES), re.MULTILINE)
    return {(name, int(line)): text for name, line, text in errors}


def pyright() -> Report:
    """Return what pyright reports on the cases, by file and line."""
    errors = json.loads(run("pyright", "--outputjson", "--project", CASES.parent))["generalDiagnostics"]
    return {(Path(error["file"]).name, error["range"]["start"]["line"] + 1): error["message"] for error in errors}


def expected() -> set[tuple[str, int]]:
    """Return the lines with the comment `# expect-error`."""
    return {
        (path.name, number)
        for path in CASES.glob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# expect-error")
    }


@pytest.mark.slow
@pytest.mark.usefixtures("no_time_limit")
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_types_and_mistakes(checker: Callable[[], Report]) -> None:
    """All cases in one run, because a checker spends most of its time on torch and pyarrow."""
    reported, marked = checker(), expected()
    surplus = [f"{place}: {text}" for place, text in reported.items() if place not in marked]
    missing = sorted(marked - reported.keys())
    assert not surplus, "reported, but not marked:\n" + "\n".join(surplus)
    assert not missing, "marked, but not reported"
