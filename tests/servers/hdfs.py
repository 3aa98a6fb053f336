"""A real HDFS for a whole run of the tests: a NameNode and two DataNodes on this machine.

The first test that needs it starts it. All processes of pytest-xdist share it, and it ends with the last of them.
"""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .hadoop import install, locked
from .process import Process, ProgramConnection, ProgramError


@dataclass(frozen=True)
class Hdfs:
    """A running HDFS.

    Attributes:
        port: the NameNode's, on 127.0.0.1.
        keeper: the port of the process that runs it; see `keeper`.
        environment: the variables that a process needs before it reads from HDFS.
    """

    port: int
    keeper: int
    environment: dict[str, str] = field(repr=False)

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def kill_datanode(self, number: int) -> None:
        """Kills DataNode 0 or 1; the other one has its blocks too."""
        self._command("kill_datanode", number)

    def start_datanode(self, number: int) -> None:
        """Starts a killed DataNode again, with its data; returns when the NameNode knows it."""
        self._command("start_datanode", number)

    def _command(self, *command: object) -> None:
        connection = _connect(self.keeper)
        connection.receive()
        error = connection.ask(*command)
        connection.close()
        if error:
            raise RuntimeError(error)


def write(url: str, folder: str, files: Mapping[str, bytes]) -> None:
    """Writes files below a folder; call it in a client process."""
    from pyarrow import fs

    filesystem, _ = fs.FileSystem.from_uri(url)

    def write_file(item: tuple[str, bytes]) -> None:
        with filesystem.open_output_stream(f"{folder}/{item[0]}", compression=None) as stream:
            stream.write(item[1])

    # HDFS closes a file slowly, so threads write several at the same time.
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write_file, files.items()))


@contextmanager
def shared_hdfs(folder: Path) -> Iterator[Hdfs]:
    """Starts an HDFS, or joins the one of another process that shares `folder`."""
    with locked(folder / "hdfs.lock"):
        hdfs, connection = _join(folder / "hdfs.json") or _start(folder)
    try:
        yield hdfs
    finally:
        connection.close()


def _join(address: Path) -> tuple[Hdfs, ProgramConnection] | None:
    try:
        connection = _connect(json.loads(address.read_text())["keeper"])
    except (FileNotFoundError, ConnectionError):  # nobody has started one, or all its users are gone
        return None
    try:
        return Hdfs(**connection.receive()), connection
    except ProgramError:  # its last user has just gone
        connection.close()
        return None


def _start(folder: Path) -> tuple[Hdfs, ProgramConnection]:
    install()
    work = Path(tempfile.mkdtemp(prefix="hdfs-", dir=folder))
    process = Process("tests.servers.keeper", work / "keeper.log")
    address = process.ask(str(work))
    if isinstance(address, str):
        process.close()
        raise RuntimeError(address)
    hdfs = Hdfs(**address)
    (folder / "hdfs.json").write_text(json.dumps(asdict(hdfs)))
    return hdfs, process


def _connect(port: int) -> ProgramConnection:
    return ProgramConnection(socket.create_connection(("127.0.0.1", port), timeout=None))
