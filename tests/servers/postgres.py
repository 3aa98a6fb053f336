"""A real PostgreSQL from Debian's package, in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from .keeper import _die_with_parent, _free_ports
from .process import Process, answer_questions

USER, PASSWORD = "keeper", "hunter+2"
START_SECONDS = 60.0


def postgres_programs() -> Path | None:
    """The folder of the newest server that is installed."""
    newest = max(Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=None)
    return newest and newest.parent


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    port: int
    process: Process

    @classmethod
    def start(cls, log: Path) -> Postgres:
        process = Process("tests.servers.postgres", log)
        return cls(process.ask("start"), process)

    @property
    def uri(self) -> str:
        return self.uri_of(USER, "hunter%2B2")

    def uri_of(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def kill(self) -> None:
        """Kills the server; its files stay."""
        self.process.ask("kill")

    def restart(self) -> None:
        """Starts a server that was killed, on the same port."""
        self.process.ask("restart")


class PostgresServer:
    """The server, and its files. It runs as the user `postgres`, because it refuses to run as root."""

    def __init__(self, folder: Path) -> None:
        programs = postgres_programs()
        if programs is None:
            raise RuntimeError("the tests need PostgreSQL: on Debian, `make databases`")
        self.programs = programs
        self.folder = folder
        self.user = "postgres" if os.geteuid() == 0 else None
        (self.port,) = _free_ports(1)
        self.server: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        password = self.folder / "password"
        password.write_text(PASSWORD + "\n", encoding="utf-8")
        password.chmod(0o644)
        options = ["-A", "scram-sha-256", "-U", USER, f"--pwfile={password}", "-N", "-E", "UTF8", "--locale=C"]
        self._popen("initdb", "-D", self.folder / "data", *options).wait()
        self.restart()
        return self.port

    def restart(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_wal_size": "256MB",
            "shared_buffers": "64MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.server = self._popen("postgres", "-D", self.folder / "data", "-p", self.port, *options)
        deadline = time.monotonic() + START_SECONDS
        while self._popen("pg_isready", "-q", "-h", "127.0.0.1", "-p", self.port).wait():
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not start")
            time.sleep(0.05)  # it sends no event when it is ready

    def kill(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGQUIT)  # ends all of its processes at once
            self.server.wait()

    def _popen(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [str(self.programs / program), *map(str, arguments)]
        return subprocess.Popen(command, user=self.user, cwd="/", preexec_fn=_die_with_parent)


def main(owner: Connection) -> None:
    folder = Path(tempfile.mkdtemp(prefix="feedpipe-postgres-"))
    server = PostgresServer(folder)
    try:
        answer_questions(owner, server)
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
