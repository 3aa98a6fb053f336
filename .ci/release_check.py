"""`make release-check`: is this commit a release? Prints every fault, then "ready" or "not ready"; it uploads nothing.

It builds the archives from what is committed and looks into them. Then it installs the wheel with the lowest and with
the highest versions of its dependencies, without torch and pandas, and uses it in an empty folder, where warnings are
errors.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEEL_SIZE = 1.5e6  # bytes
IMPORT_TIME = 0.35  # seconds of CPU
PROGRAM = r"""
import importlib.metadata, os, sys, time

began = time.process_time()
import feedpipe as fp
took = time.process_time() - began

import numpy as np
import pyarrow

pipe = fp.from_arrays({"x": np.arange(100.0)}).shuffle().map(lambda row: {"x": row["x"] + 1}).batch(8)
if __name__ == "__main__":
    assert fp.__file__.startswith(sys.prefix), fp.__file__
    assert fp.__version__ == importlib.metadata.version("feedpipe")
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert not loaded & {"torch", "pandas"}, loaded
    with fp.Loader(pipe, workers=2, seed=1) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        rest = list(batches)
    resumed = fp.Loader(pipe, seed=1)
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    fp.write_parquet(fp.from_arrays({"x": np.arange(10)}), "written", progress=False)
    assert sum(row["x"] for row in fp.read_parquet("written")) == 45
    assert took < float(sys.argv[1]), f"import takes {took:.2f} s of CPU, more than {sys.argv[1]}"
    print(f"   numpy {np.__version__}, pyarrow {pyarrow.__version__}, import {took:.2f} s: all works")
"""


def main() -> int:
    """Return 0 if the commit is a release."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        print("== archives", flush=True)
        faults += uncommitted()
        tools = environment(work / "tools", "build", "setuptools>=77", "twine")
        wheel, source = build(work, tools)
        faults += described(wheel, tools, source)
        faults += packed(wheel, source)
        for which in ("lowest", "highest"):
            print(f"== {which} versions, Python {'.'.join(map(str, sys.version_info[:3]))}", flush=True)
            faults += used(work, wheel, which)
    print(*(f"   FAULT: {fault}" for fault in faults), sep="\n")
    print("ready" if not faults else f"not ready: {len(faults)} faults")
    return int(bool(faults))


def uncommitted() -> Iterator[str]:
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        yield "there are changes that are not committed; what is checked is the last commit"


def build(work: Path, python: Path) -> tuple[Path, Path]:
    """Build the source archive from what is committed, and the wheel from the source archive."""
    (work / "tree").mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", work / "tree"], input=archive, check=True)
    run(python, "-m", "build", "-q", "--no-isolation", "--outdir", work / "dist", work / "tree")
    [wheel], [source] = (work / "dist").glob("*.whl"), (work / "dist").glob("*.tar.gz")
    return wheel, source


def described(wheel: Path, python: Path, source: Path) -> Iterator[str]:
    """What a package registry shows of it."""
    twine = subprocess.run(
        [python, "-m", "twine", "check", "--strict", wheel, source], capture_output=True, text=True, check=False
    )
    if twine.returncode:
        yield f"twine: {twine.stdout.strip()}"
    described = metadata(wheel)
    version, readme = described["Version"], str(described.get_payload())
    urls = {url.partition(",")[0] for url in described.get_all("Project-URL") or []}
    yield from (
        f"no address: {label}" for label in ("Documentation", "Source", "Changelog", "Issues") if label not in urls
    )
    classifiers = described.get_all("Classifier") or []
    for python_version in tested_pythons():
        if f"Programming Language :: Python :: {python_version}" not in classifiers and has_python(python_version):
            yield f"no classifier of Python {python_version}, on which the tests run"
    if "dev" in version:
        yield f"version {version} is none of a release"
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ):
        yield f"CHANGELOG.md has no line `## [{version}] - YEAR-MONTH-DAY`"
    if links := re.findall(r"\]\((?!https?:|#)([^)]+)\)", readme):
        yield f"no address: {len(links)} links of the README lead nowhere on a registry, such as {links[0]}"


def packed(wheel: Path, source: Path) -> Iterator[str]:
    """What the archives hold."""
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = run("git", "ls-files", "pipes").split()
    package = {f"feedpipe/{name.removeprefix('pipes/')}" for name in tracked}
    if files != package:
        yield f"wheel and pipes/ differ in {sorted(files ^ package)[:5]}"
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in run("git", "ls-files").split() if name not in names and not name.startswith(".")]
    if missing:
        yield f"the source archive lacks {len(missing)} files, such as {', '.join(missing[:3])}"
    size = wheel.stat().st_size
    print(f"   wheel {size / 1e6:.2f} MB, {len(files)} files; source archive {source.stat().st_size / 1e6:.2f} MB")
    if size > WHEEL_SIZE:
        yield f"the wheel has {size / 1e6:.2f} MB, more than {WHEEL_SIZE / 1e6} MB"


def used(work: Path, wheel: Path, which: str) -> Iterator[str]:
    """Install the wheel and use it."""
    needed = [name for name in metadata(wheel).get_all("Requires-Dist") or [] if "extra ==" not in name]
    python = environment(
        work / which, *(name.replace(">=", "==") if which == "lowest" else name for name in needed), wheel
    )
    folder = work / f"empty-{which}"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    commands = [[python, "-W", "error", "program.py", str(IMPORT_TIME)], [python.with_name("feedpipe"), "ops", "batch"]]
    for command in commands:
        done = subprocess.run(
            command, cwd=folder, env=without_path(), capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            yield f"with the {which} versions, {Path(command[-2]).name} fails: {done.stderr.strip()[-500:]}"
        elif command is commands[0]:
            print(done.stdout, end="")


def environment(folder: Path, *packages: str | Path) -> Path:
    """Make an environment with packages; return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *packages)
    return python


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def tested_pythons() -> list[str]:
    """Return the Python that the pins are for, and those of `make test-python`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return ["3.11", *re.findall(r"3\.\d+", re.search(r"\.ci/test_python (.*)", makefile)[1])]  # type: ignore[index]


def has_python(version: str) -> bool:
    script = f'source <(sed -n "/^find_python/,/^}}/p" .ci/test_python); find_python {version}'
    return bool(run("bash", "-c", script))


def without_path() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: str | Path) -> str:
    """Return what a command prints; what it says when it fails ends this program."""
    done = subprocess.run(command, cwd=ROOT, env=without_path(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} fails:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
