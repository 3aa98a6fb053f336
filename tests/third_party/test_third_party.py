"""A package of another author: built, installed, used and type-checked outside of this checkout."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = HERE / "package"
CODES = [f"--enable-error-code={name}" for name in ("ignore-without-code", "redundant-expr", "truthy-bool")]
ALLOWED = {"feedpipe", "feedpipe.extensions", "feedpipe.testing"}

pytestmark = pytest.mark.slow


def run(*command: object, folder: Path, codes: tuple[int, ...] = (0,)) -> str:
    """Run a program in `folder`, with nothing of this checkout in its environment, and return what it prints."""
    hidden = ("PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a copy of `source`, so that the checkout stays clean."""
    copy = folder / f"{source.name}-copy"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist")
    for name in ("pyproject.toml", "README.md", "LICENSE", "pipes", "src"):
        if (source / name).is_dir():
            shutil.copytree(source / name, copy / name, ignore=ignored)
        elif (source / name).exists():
            copy.mkdir(exist_ok=True)
            shutil.copy(source / name, copy / name)
    wheels = folder / f"{source.name}-wheel"
    pip = (sys.executable, "-m", "pip", "--quiet", "wheel")
    run(*pip, "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", wheels, copy, folder=folder)
    return next(wheels.glob("*.whl"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with feedpipe and the package installed, which sees the other packages of this one."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    wheels = [wheel(ROOT, folder), wheel(PACKAGE, folder)]
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", python)
    run(*pip, "install", "--no-index", "--no-deps", *wheels, folder=folder)
    (own,) = (folder / "venv").glob("lib/python*/site-packages")
    others = [path for path in sys.path if Path(path).name == "site-packages"]
    (own / "others.pth").write_text("\n".join(others), encoding="utf-8")  # the wheels come first
    return python


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for name in ("use.py", "mistakes.py"):
        shutil.copy(HERE / name, folder / name)
    shutil.copytree(PACKAGE, folder / "package")
    return folder


@pytest.mark.usefixtures("no_time_limit")
def test_it_works_where_it_is_installed(python: Path, scripts: Path) -> None:
    run(python, "-W", "error", "use.py", folder=scripts)


def copy_database(source: str, target: str) -> None:
    """Copy a file of mypy's cache, into which another test may write meanwhile."""
    if not source.endswith(".db"):
        shutil.copy2(source, target)
        return
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def mypy(python: Path, scripts: Path) -> set[tuple[str, int]]:
    """Return what mypy reports on the scripts, by file and line. It must report nothing on the package."""
    # With the options of `make check`, and a copy of its cache: most of the time would go to torch and pyarrow.
    cache = scripts / "cache"
    if (ROOT / ".mypy_cache").is_dir() and not cache.exists():
        journals = shutil.ignore_patterns("*-journal", "*-wal", "*-shm")
        shutil.copytree(ROOT / ".mypy_cache", cache, ignore=journals, copy_function=copy_database)
    options = ("--strict", "--warn-unreachable", *CODES, "--config-file=", "--cache-dir", cache)
    command = (sys.executable, "-m", "mypy", *options, "--python-executable", python)
    run(*command, "-p", "feedpipe_example", folder=scripts / "package" / "src")
    printed = run(*command, "use.py", "mistakes.py", folder=scripts, codes=(0, 1))
    errors = re.findall(r"^(\S+\.py):(\d+): error: ", printed, re.MULTILINE)
    assert f"Found {len(errors)} error" in printed, printed
    return {(name, int(line)) for name, line in errors}


def pyright(python: Path, scripts: Path) -> set[tuple[str, int]]:
    """Return what pyright reports on the scripts and the package, by file and line."""
    settings = {"include": ["use.py", "mistakes.py", "package"], "typeCheckingMode": "strict"}
    (scripts / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    program = Path(sys.executable).parent / "pyright"
    printed = run(program, "--pythonpath", python, "--outputjson", folder=scripts, codes=(0, 1))
    found = json.loads(printed)["generalDiagnostics"]
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in found}


@pytest.mark.usefixtures("no_time_limit")
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_type_checker_sees_its_types(checker: object, python: Path, scripts: Path) -> None:
    assert callable(checker)
    lines = (HERE / "mistakes.py").read_text(encoding="utf-8").splitlines()
    marked = {("mistakes.py", number) for number, line in enumerate(lines, 1) if line.endswith("# expect-error")}
    assert checker(python, scripts) == marked


def imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, as far as they are absolute."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_it_imports_only_what_is_public() -> None:
    for path in [HERE / "use.py", *PACKAGE.rglob("*.py")]:
        inner = {name for name in imports(path) if name.split(".")[0] == "feedpipe"}
        assert inner <= ALLOWED, f"{path.name} imports {sorted(inner - ALLOWED)}"
