"""A real MariaDB Galera cluster of two nodes from Debian's packages, on free ports of the loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from .keeper import _die_with_parent, _free_ports
from .process import Process, answer_questions

USER, PASSWORD, DATABASE = "reader", "tulip-7", "test"
LIBRARY = Path("/usr/lib/galera/libgalera_smm.so")
NODES = 2
START_SECONDS = 100.0


@dataclass(frozen=True)
class Galera:
    """A running cluster."""

    ports: list[int]
    process: Process

    @classmethod
    def start(cls, log: Path) -> Galera:
        process = Process("tests.servers.galera", log)
        return cls(process.ask("start"), process)

    @property
    def uris(self) -> list[str]:
        return [f"mysql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}" for port in self.ports]

    def kill(self, number: int) -> None:
        """Kills a node."""
        self.process.ask("kill", number)

    def restart(self, number: int) -> None:
        """Starts a node that was killed; returns when it is in sync."""
        self.process.ask("restart", number)

    def run(self, number: int, statement: str) -> str:
        """Runs statements on a node, as its administrator; returns what they give."""
        return str(self.process.ask("run", number, statement))


class GaleraCluster:
    """The nodes, and their files. They run as the user `mysql`."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("mariadbd") is None or not LIBRARY.exists():
            raise RuntimeError("the tests need MariaDB and Galera: on Debian, `make databases`")
        self.folder = folder
        self.user = "mysql" if os.geteuid() == 0 else None
        ports = _free_ports(4 * NODES)
        # Each node: for clients, for the other nodes, and for both kinds of state transfer.
        self.ports = [ports[4 * number : 4 * number + 4] for number in range(NODES)]
        self.nodes: list[subprocess.Popen[bytes] | None] = [None] * NODES

    def start(self) -> list[int]:
        self.folder.chmod(0o755)
        for number in range(NODES):
            home = self._home(number)
            home.mkdir()
            if self.user is not None:
                shutil.chown(home, self.user)
            options = ["--no-defaults", f"--datadir={home}", "--auth-root-authentication-method=normal"]
            subprocess.run(["mariadb-install-db", *options, "--skip-test-db"], check=True, user=self.user)
        self._launch(0, "gcomm://")
        self._wait(0)
        self._launch(1, self._address(0))
        self._wait(1)
        self.run(
            0,
            f"create database {DATABASE}; create user {USER}@'127.0.0.1' identified by '{PASSWORD}';"
            f"grant all on {DATABASE}.* to {USER}@'127.0.0.1'",
        )
        return [ports[0] for ports in self.ports]

    def restart(self, number: int) -> None:
        self._launch(number, self._address(1 - number))
        self._wait(number)

    def kill(self, number: int) -> None:
        node = self.nodes[number]
        if node is not None:
            node.kill()
            node.wait()
            self.nodes[number] = None

    def run(self, number: int, statement: str) -> str:
        socket = self._home(number) / "s.sock"
        command = ["mariadb", "--no-defaults", "-uroot", f"-S{socket}", "-N", "-e", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _home(self, number: int) -> Path:
        return self.folder / f"node{number}"

    def _address(self, number: int) -> str:
        return f"gcomm://127.0.0.1:{self.ports[number][1]}"

    def _launch(self, number: int, address: str) -> None:
        home = self._home(number)
        client, peers, incremental, full = self.ports[number]
        settings = {
            "datadir": home,
            "port": client,
            "bind-address": "127.0.0.1",
            "socket": home / "s.sock",
            "pid-file": home / "pid",
            "innodb-flush-log-at-trx-commit": 0,
            "innodb-buffer-pool-size": "64M",
            "innodb-autoinc-lock-mode": 2,
            "binlog-format": "ROW",
            "wsrep-on": "ON",
            "wsrep-provider": LIBRARY,
            "wsrep-cluster-name": "feedpipe",
            "wsrep-cluster-address": address,
            "wsrep-node-address": f"127.0.0.1:{peers}",
            "wsrep-node-incoming-address": f"127.0.0.1:{client}",
            # A node that is left alone goes on: with two nodes, the death of one takes the majority.
            "wsrep-provider-options": f"gmcast.listen_addr=tcp://127.0.0.1:{peers};gcache.size=32M;"
            f"ist.recv_addr=127.0.0.1:{incremental};pc.ignore_sb=true",
            "wsrep-sst-method": "rsync",
            "wsrep-sst-receive-address": f"127.0.0.1:{full}",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self.nodes[number] = subprocess.Popen(
            ["mariadbd", "--no-defaults", *options], user=self.user, cwd="/", preexec_fn=_die_with_parent
        )

    def _wait(self, number: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._is_synced(number):
            node = self.nodes[number]
            if node is None or node.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"node {number} of the Galera cluster does not start")
            time.sleep(0.1)  # it sends no event when it is ready

    def _is_synced(self, number: int) -> bool:
        try:
            return "Synced" in self.run(number, "show status like 'wsrep_local_state_comment'")
        except subprocess.CalledProcessError:  # it does not listen yet
            return False

    def end(self) -> None:
        for number in range(NODES):
            self.kill(number)


def main(owner: Connection) -> None:
    folder = Path(tempfile.mkdtemp(prefix="feedpipe-galera-"))
    cluster = GaleraCluster(folder)
    try:
        answer_questions(owner, cluster)
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)
