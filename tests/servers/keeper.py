"""The keeper of one HDFS: it starts the servers, kills and restarts DataNodes, and ends with its last user.

A user is a connection. The kernel closes the connections of a dead process, so no server outlives the tests.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .hadoop import JAVA_OPTIONS, install, java_home

DATANODE_COUNT = 2
HEAP = "-Xmx128m"
START_SECONDS = 90.0
"""Seconds for a start; a busy machine needs some 20."""
SERVER = "org.apache.hadoop.hdfs.server"


class HdfsServers:
    """The servers, and their files below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hadoop = install()
        self.java = java_home()
        self.port = self.http = 0
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for last in (False, False, True):
            try:
                return self._start()
            except RuntimeError as error:
                if last or "BindException" not in str(error):
                    raise
                self.end()  # another process has taken a port

    def _start(self) -> None:
        self.port, self.http = _free_ports(2)
        self._configure()
        self._launch("format", "namenode.NameNode", "-format", "-force", "-nonInteractive").wait()
        if self.processes.pop("format").returncode:
            raise RuntimeError(f"HDFS cannot be formatted\n{self._log_text()}")
        self._launch("namenode", "namenode.NameNode")
        for number in range(DATANODE_COUNT):
            self._launch(f"datanode{number}", "datanode.DataNode")
        self._wait_until(
            lambda: len(self._live()) == DATANODE_COUNT and self._jmx("FSNamesystemState")["FSState"] == "Operational"
        )

    def kill_datanode(self, number: int) -> None:
        process = self.processes.pop(f"datanode{number}")
        process.kill()
        process.wait()

    def start_datanode(self, number: int) -> None:
        """Returns when the NameNode knows the new process by its port; it may still list the old one."""
        before = self._live()
        self._launch(f"datanode{number}", "datanode.DataNode")
        self._wait_until(lambda: self._live() - before)

    def end(self) -> None:
        """Kills all servers, whose data nobody needs any longer."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a client needs before Java starts in its process."""
        return {
            "JAVA_HOME": str(self.java),
            "CLASSPATH": self._class_path(),
            "ARROW_LIBHDFS_DIR": str(self.hadoop / "lib"),
            # -Xrs leaves Ctrl-C to Python.
            "LIBHDFS_OPTS": " ".join((*JAVA_OPTIONS, HEAP, "-Xrs")),
            "HADOOP_USER_NAME": "feedpipe",
        }

    def _class_path(self, *first: Path) -> str:
        # libhdfs expands no wild cards.
        return ":".join(map(str, (*first, self.folder / "conf", *sorted((self.hadoop / "jars").iterdir()))))

    def _launch(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        options = [HEAP, *JAVA_OPTIONS, f"-Djava.io.tmpdir={self.folder}/data"]
        path = self._class_path(self.folder / "conf" / name)
        with (self.folder / f"{name}.log").open("ab") as log:
            process = self.processes[name] = subprocess.Popen(
                [self.java / "bin/java", *options, "-cp", path, f"{SERVER}.{program}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # the keeper may be killed too
            )
        return process

    def _configure(self) -> None:
        for folder in ("data", "conf/webapps/hdfs", "conf/webapps/datanode"):  # the archives have no web pages
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        data = f"file://{self.folder}/data"
        self._write("core-site.xml", {
            "fs.defaultFS": f"hdfs://127.0.0.1:{self.port}",
            "hadoop.tmp.dir": f"{self.folder}/data",
            "ipc.client.connect.max.retries": 3,
        })  # fmt: skip
        common = {
            "dfs.replication": DATANODE_COUNT,
            "dfs.permissions.enabled": "false",
            "dfs.namenode.fs-limits.min-block-size": 2**16,
            "dfs.namenode.name.dir": f"{data}/name",
            "dfs.namenode.http-address": f"127.0.0.1:{self.http}",
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # A DataNode counts as dead after 2 rechecks and 10 heartbeats.
            "dfs.namenode.heartbeat.recheck-interval": 1000,
            "dfs.heartbeat.interval": 1,
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            # A client that finds no DataNode asks three times more, with pauses of up to so many milliseconds.
            "dfs.client.retry.window.base": 10,
            # With two DataNodes, none can replace a dead one.
            "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        }
        self._write("hdfs-site.xml", common)
        for number in range(DATANODE_COUNT):
            own = {"dfs.datanode.data.dir": f"{data}/datanode{number}"}
            self._write(f"datanode{number}/hdfs-site.xml", common | own)
        (self.folder / "conf/log4j.properties").write_text(
            "log4j.rootLogger=WARN,out\n"
            "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.target=System.err\n"
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.out.layout.ConversionPattern=%d %p %c{1}: %m%n\n"
        )

    def _write(self, name: str, settings: dict[str, object]) -> None:
        file = self.folder / "conf" / name
        file.parent.mkdir(exist_ok=True)
        lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        file.write_text("\n".join(["<configuration>", *lines, "</configuration>"]))

    def _wait_until(self, fact: Callable[[], object]) -> None:
        def is_reached() -> bool:
            if ended := [name for name, process in self.processes.items() if process.poll() is not None]:
                raise RuntimeError(f"HDFS does not start; ended: {ended}\n{self._log_text()}")
            try:
                return bool(fact())
            except (OSError, IndexError):  # the NameNode does not answer yet, or has no such bean yet
                return False

        deadline = time.monotonic() + START_SECONDS
        while not is_reached():
            if time.monotonic() > deadline:
                raise RuntimeError(f"HDFS does not start within {START_SECONDS:.0f} s\n{self._log_text()}")
            time.sleep(0.02)  # a NameNode sends no event when it is ready

    def _log_text(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def _live(self) -> set[str]:
        """The addresses of the DataNodes that the NameNode lists as alive."""
        nodes = json.loads(self._jmx("NameNodeInfo")["LiveNodes"])
        return {node["xferaddr"] for node in nodes.values()}

    def _jmx(self, name: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.http}/jmx?qry=Hadoop:service=NameNode,name={name}"
        with _no_proxy().open(url, timeout=5) as answer:
            return json.load(answer)["beans"][0]  # type: ignore[no-any-return]


def _no_proxy() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _keep(hdfs: HdfsServers, first: Connection, listener: socket.socket) -> Connection:
    """Serves the users until the last one is gone; returns its connection, which must be closed last."""
    address = {"port": hdfs.port, "keeper": listener.getsockname()[1], "environment": hdfs.environment}
    users = [first]
    first.send(address)
    while True:
        for ready in wait([listener, *users]):
            if ready is listener:
                users.append(Connection(listener.accept()[0].detach()))
                with suppress(ConnectionError):  # the loop removes a user that has died
                    users[-1].send(address)
                continue
            assert isinstance(ready, Connection)
            try:
                command, number = ready.recv()
                getattr(hdfs, command)(number)
                ready.send(None)
            except (EOFError, ConnectionError):
                users.remove(ready)
                if not users:
                    return ready
                ready.close()
            except Exception as error:
                ready.send(f"{type(error).__name__}: {error}")


def main(owner: Connection) -> None:
    hdfs = HdfsServers(Path(owner.recv()[0]))
    last = owner
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            try:
                hdfs.start()
            except Exception as error:
                owner.send(f"{type(error).__name__}: {error}")
                return
            last = _keep(hdfs, owner, listener)
    finally:
        hdfs.end()
        last.close()
