"""macOS: no run on such a machine, but one from which the calls are taken that macOS lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import builtins, io, os, signal, socket, sys

import sysconfig, tempfile, uuid, numpy, pyarrow.compute, pyarrow.csv, pyarrow.dataset, pyarrow.fs, pyarrow.parquet
import fsspec, tqdm, cloudpickle  # these have their own ways on each system
sysconfig.get_config_vars()
import {imports}

for name in ("memfd_create", "pipe2", "sched_getaffinity", "sched_setaffinity", "MFD_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "darwin"

opened, low = builtins.open, os.open


def refuse(path):
    if str(path).startswith(("/proc", "/sys/fs/cgroup", "/dev/shm")):
        raise FileNotFoundError(2, "there is no such folder here", str(path))


def open_file(path, *args, **options):
    refuse(path)
    return opened(path, *args, **options)


def low_open(path, *args, **options):
    refuse(path)
    return low(path, *args, **options)


builtins.open, io.open, os.open = open_file, open_file, low_open
access = os.access
os.access = lambda path, *args, **options: not str(path).startswith("/dev/shm") and access(path, *args, **options)

import feedpipe as fp
import numpy as np

{body}
"""

BODY = """
import tempfile

folder = tempfile.mkdtemp()
np.arange(41, dtype="uint16").tofile(folder + "/a.bin")
np.save(folder + "/x.npy", np.arange(20))
with opened(folder + "/a.csv", "w") as file:
    file.write("x\\n" + "\\n".join(map(str, range(30))))

windows = fp.read_tokens(folder + "/a.bin", dtype="uint16", length=9, step=8).shuffle().batch(2)
loader = fp.Loader(windows, seed=1)
first = next(iter(loader))["tokens"].tolist()
state = loader.state_dict()
again = fp.Loader(windows, seed=1)
again.load_state_dict(state)
rows = first + sum((batch["tokens"].tolist() for batch in again), [])
assert sorted(row[0] for row in rows) == [0, 8, 16, 24, 32]

rows = fp.read_csv(folder + "/a.csv").shuffle(window=10).map(lambda row: {"x": row["x"] + 1})
table = rows.batch(4).collate(format="numpy")
for service in (fp.InProcess(), fp.Threads(2)):
    assert sorted(x for batch in fp.Loader(table, service) for x in batch["x"].tolist()) == list(range(1, 31))
with fp.Loader(fp.read_csv(folder + "/a.csv").cache().batch(5), fp.Threads(2)) as loader:
    assert sum(len(batch) for batch in loader) == sum(len(batch) for batch in loader) == 30

import fsspec

store = fsspec.filesystem("memory")
remote = fsspec.implementations.dirfs.DirFileSystem(folder, fsspec.implementations.local.LocalFileSystem())
kept = fp.FileCache(folder + "/kept", limit="1GiB")
for _ in range(2):
    rows = list(fp.read_lines("a.csv", filesystem=remote, cache=kept))
    assert rows[1:] == list(map(str, range(30)))
fp.write_parquet(fp.read_csv(folder + "/a.csv"), folder + "/out")
assert fp.read_parquet(folder + "/out").count() == 30
table.check()
"""

WORKERS = """
loader = fp.Loader(fp.from_arrays({"x": np.arange(4000.0)}).batch(500), workers=2)
assert [float(batch["x"][0]) for batch in loader] == [500.0 * k for k in range(8)]
loader.close()
"""


def run(body: str, tmp_path: Path, imports: str = "fsspec.implementations.dirfs") -> None:
    program = tmp_path / "program.py"
    program.write_text(WITHOUT.format(body=body, imports=imports))
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("body", [BODY, WORKERS], ids=["in this process and in threads", "workers"])
def test_pipes_run_without_what_macos_lacks(body: str, tmp_path: Path) -> None:
    run(body, tmp_path)


def test_platform_calls_are_in_one_module() -> None:
    """Outside of worker processes, nothing else imports what only some systems have."""
    package = Path(__file__).parents[2] / "pipes"
    allowed = {"core/system.py", "services/cluster.py"}
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if name in allowed or name.startswith("services/processes/"):
            continue
        calls = r"os\.(?:sched_(?!yield)|memfd|fork\b|pipe2)"
        found = re.search(calls, path.read_text(), re.MULTILINE)
        assert found is None, f"{name} has `{found[0]}`, and `core/system.py` is its place"
