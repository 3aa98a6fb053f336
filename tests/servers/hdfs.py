"""A real HDFS, one for a whole run of the tests: a NameNode and two DataNodes on this machine.

Started by the first test that asks for it, shared by all processes of pytest-xdist, and gone with the last of them.
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

from .hadoop import installed, locked
from .process import Line, Process, ProgramError


@dataclass(frozen=True)
class Hdfs:
    """An HDFS that is there.

    Attributes:
        port: the NameNode's, on 127.0.0.1.
        keeper: the port of the process that keeps it, see `keeper`.
        environment: what a process needs before it looks at HDFS.
    """

    port: int
    keeper: int
    environment: dict[str, str] = field(repr=False)

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def kill_datanode(self, number: int) -> None:
        """Kills DataNode 0 or 1; its blocks are then read from the other one."""
        self._order("kill_datanode", number)

    def start_datanode(self, number: int) -> None:
        """Starts a killed DataNode again, with the data it had; returns when the NameNode knows it."""
        self._order("start_datanode", number)

    def _order(self, *order: object) -> None:
        line = _line(self.keeper)
        line.told()
        wrong = line.ask(*order)
        line.close()
        if wrong:
            raise RuntimeError(wrong)


def write(url: str, folder: str, files: Mapping[str, bytes]) -> None:
    """Writes files below a folder; to be called in the process of a client."""
    from pyarrow import fs

    filesystem, _ = fs.FileSystem.from_uri(url)

    def one(item: tuple[str, bytes]) -> None:
        with filesystem.open_output_stream(f"{folder}/{item[0]}", compression=None) as stream:
            stream.write(item[1])

    # HDFS takes its time to close a file, so all of them at once.
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, files.items()))


@contextmanager
def shared_hdfs(folder: Path) -> Iterator[Hdfs]:
    """The one HDFS of all processes that share `folder`."""
    with locked(folder / "hdfs.lock"):
        hdfs, line = _joined(folder / "hdfs.json") or _started(folder)
    try:
        yield hdfs
    finally:
        line.close()


def _joined(news: Path) -> tuple[Hdfs, Line] | None:
    try:
        line = _line(json.loads(news.read_text())["keeper"])
    except (FileNotFoundError, ConnectionError):  # nobody has started one, or all its users are gone
        return None
    try:
        return Hdfs(**line.told()), line
    except ProgramError:  # the last of them has just gone
        line.close()
        return None


def _started(folder: Path) -> tuple[Hdfs, Line]:
    installed()
    work = Path(tempfile.mkdtemp(prefix="hdfs-", dir=folder))
    process = Process("tests.servers.keeper", work / "keeper.log")
    news = process.ask(str(work))
    if isinstance(news, str):
        process.close()
        raise RuntimeError(news)
    hdfs = Hdfs(**news)
    (folder / "hdfs.json").write_text(json.dumps(asdict(hdfs)))
    return hdfs, process


def _line(port: int) -> Line:
    return Line(socket.create_connection(("127.0.0.1", port), timeout=None))
