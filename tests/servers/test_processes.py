"""The servers of the tests end with their users, for whatever reason those end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .process import TESTS, ProgramError, await_end
from .s3 import S3

PROGRAM = """
import sys, types
sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [{tests!r}]
from pathlib import Path
from tests.servers.hdfs import shared_hdfs
from tests.servers.s3 import S3
{body}
"""
HDFS = """
with shared_hdfs(Path({folder!r})) as hdfs:
    print(hdfs.url, flush=True)
    sys.stdin.read()
"""
S3_PID = """
server = S3.start(Path({folder!r}, "log"))
print(server.process.pid, flush=True)
sys.stdin.read()
"""


def user(body: str, folder: Path) -> subprocess.Popen[str]:
    code = PROGRAM.format(tests=TESTS, body=body.format(folder=str(folder)))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, start_new_session=True)


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the process has ended"
    return line


def kill(process: subprocess.Popen[str], how: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(how)
    process.communicate(timeout=60)


def java_processes(text: str) -> list[int]:
    """The Java processes whose command lines contain `text`."""
    pids = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in line and "-Xmx" in line:
            pids.append(int(file.parent.name))
    return pids


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
def test_an_hdfs_is_shared_and_ends_with_its_last_user(tmp_path: Path) -> None:
    users = [user(HDFS, tmp_path) for _ in range(3)]
    try:
        assert len({read_line(one) for one in users}) == 1
        assert len(java_processes(str(tmp_path))) == 3
        kill(users[0])
        kill(users[1], signal.SIGINT)
        servers = java_processes(str(tmp_path))
        assert len(servers) == 3
        (keeper,) = {parent(pid) for pid in servers}
        kill(users[2])
        await_end(keeper)
        assert not java_processes(str(tmp_path))
        (data,) = tmp_path.glob("hdfs-*")
        assert not (data / "data").exists()
    finally:
        for one in users:
            one.kill()


def test_a_server_ends_with_a_killed_owner(tmp_path: Path) -> None:
    owner = user(S3_PID, tmp_path)
    pid = int(read_line(owner))
    os.kill(pid, 0)
    kill(owner)
    await_end(pid)


def test_a_dead_server_is_an_error(tmp_path: Path) -> None:
    server = S3.start(tmp_path / "log")
    os.kill(server.process.pid, signal.SIGKILL)
    with pytest.raises((ProgramError, ConnectionError)):
        server.put("data", {})
    server.process.close()
