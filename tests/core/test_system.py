"""A system without what Linux has: no run on such a machine, but one from which these modules and calls are taken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import builtins, io, os, signal, socket, sys

kind = sys.argv[1]
import sysconfig, tempfile, uuid, numpy, pyarrow.compute, pyarrow.csv, pyarrow.dataset, pyarrow.fs, pyarrow.parquet
import fsspec, tqdm, cloudpickle  # these have their own ways on each system
sysconfig.get_config_vars()
import {imports}

GONE = {{
    "darwin": ["memfd_create", "pipe2", "sched_getaffinity", "sched_setaffinity", "MFD_CLOEXEC"],
    "win32": [
        "memfd_create", "pipe2", "sched_getaffinity", "sched_setaffinity", "sched_yield", "fork", "register_at_fork",
        "pread", "preadv", "pwrite", "pwritev", "sysconf", "O_CLOEXEC", "geteuid", "getegid", "getuid", "fchdir",
        "MFD_CLOEXEC",
    ],
}}[kind]
for name in GONE:
    if hasattr(os, name):
        delattr(os, name)
sys.platform = kind
if kind == "win32":
    for name in ("fcntl", "resource", "_posixshmem"):
        sys.modules[name] = None
    for name in ("send_fds", "recv_fds"):  # the asyncio of this machine needs AF_UNIX
        delattr(socket, name)
    for name in ("pthread_sigmask", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGKILL"):
        delattr(signal, name)

    class Msvcrt:
        LK_LOCK, LK_NBLCK = 1, 2
        held = set()

        @staticmethod
        def locking(descriptor, mode, size):
            assert os.fstat(descriptor) and mode in (1, 2) and size == 1

    sys.modules["msvcrt"] = Msvcrt

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

WORKERS = {
    "darwin": """
loader = fp.Loader(fp.from_arrays({"x": np.arange(4000.0)}).batch(500), workers=2)
assert [float(batch["x"][0]) for batch in loader] == [500.0 * k for k in range(8)]
loader.close()
""",
    "win32": """
try:
    list(fp.Loader(fp.from_sequence(range(4)), workers=2))
except fp.WorkerError as error:
    message = str(error)
assert "this system (win32) has no `fork`" in message and "fp.Threads(4)" in message, message
""",
}


def run(kind: str, body: str, tmp_path: Path, imports: str = "fsspec.implementations.dirfs") -> None:
    program = tmp_path / "program.py"
    program.write_text(WITHOUT.format(body=body, imports=imports))
    done = subprocess.run(
        [sys.executable, program, kind],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["darwin", "win32"])
def test_pipes_run_in_this_process_and_in_threads(kind: str, tmp_path: Path) -> None:
    run(kind, BODY, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["darwin", "win32"])
def test_worker_processes_run_or_say_what_is_missing(kind: str, tmp_path: Path) -> None:
    run(kind, WORKERS[kind], tmp_path)


def test_platform_calls_are_in_one_module() -> None:
    """Outside of worker processes, nothing else imports what only some systems have."""
    package = Path(__file__).parents[2] / "pipes"
    allowed = {"core/system.py", "services/cluster.py"}
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if name in allowed or name.startswith("services/processes/"):
            continue
        calls = r"^ *import (?:fcntl|resource)|os\.(?:register_at_fork|sched_|memfd|fork\b|pipe2)"
        found = re.search(calls, path.read_text(), re.MULTILINE)
        assert found is None, f"{name} has `{found[0]}`, and `core/system.py` is its place"
