"""What holds for every test: no thread is left behind, and settings of the machine or the shell change nothing."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from feedpipe import errors

# The cost of each test.
from .costs import pytest_runtest_protocol as pytest_runtest_protocol
from .costs import pytest_sessionfinish as pytest_sessionfinish
from .costs import pytest_terminal_summary as pytest_terminal_summary
from .costs import pytest_testnodedown as pytest_testnodedown

# Fixtures, and a hook, for those who ask for a server.
from .servers.fixtures import hdfs as hdfs
from .servers.fixtures import hdfs_client as hdfs_client
from .servers.fixtures import pytest_pyfunc_call as pytest_pyfunc_call
from .servers.fixtures import s3 as s3
from .servers.fixtures import s3_server as s3_server
from .support.examples import load_profile
from .support.services import start as start_methods

# The option `--without`.
from .without import pytest_addoption as pytest_addoption
from .without import pytest_collection_modifyitems as pytest_collection_modifyitems
from .without import pytest_configure as pytest_configure
from .without import pytest_pycollect_makemodule as pytest_pycollect_makemodule
from .without import pytest_runtest_call as pytest_runtest_call
from .without import pytest_runtest_setup as pytest_runtest_setup

# Set before torch or datasets are imported anywhere: two test processes share two cores, and
# nothing may reach for the network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# A worker imports the file of the test whose functions it runs. What nearly all of these import is imported once, by
# the process that forks the workers.
start_methods._PRELOADED |= {
    name: [name] for name in ("pytest", "hypothesis", "hypothesis.strategies", "feedpipe.testing")
}

# Threads of others, started once and kept for the life of the process.
KEPT = ("asyncio", "fsspecIO", "tqdm_monitor", "zarr_io")


@pytest.fixture(autouse=True)
def one_process_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test as rank 0 of 1, whatever the shell that started it says."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


class _TimeToShrink:
    """Gives hypothesis ten minutes: it shrinks a failing example for longer than the minute that a test has."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        test = getattr(item, "obj", None)
        if getattr(test, "is_hypothesis_test", False) and float(item.config.getini("faulthandler_timeout") or 0):
            faulthandler.dump_traceback_later(600, exit=True)


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_TimeToShrink())
    load_profile()


def pytest_report_header() -> list[str]:
    slow = "PYTHONDONTWRITEBYTECODE is set: each program that a test starts compiles the package again"
    return [slow] if os.environ.get("PYTHONDONTWRITEBYTECODE") else []


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay, out of each later garbage collection: it takes a third of a second else."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_time_limit() -> None:
    """Let the test take longer than the minute that `make test` allows: mypy does, if its cache is empty."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> Iterator[None]:
    """Handle SIGINT as in a terminal: children of a shell in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail a test that leaves a thread running after its iterators are gone."""
    before = set(threading.enumerate())
    yield
    left = _started_since(before)
    for _ in range(1200):  # a minute: a request to a server that says nothing ends by itself
        if not left:
            break
        gc.collect()  # does nothing while another thread collects, so once is not enough
        with suppress(RuntimeError):  # it starts just now
            left[0].join(timeout=0.05)
        left = [thread for thread in left if thread.is_alive()]
    assert not left, f"threads left running: {[thread.name for thread in left]}"


def _started_since(before: set[threading.Thread]) -> list[threading.Thread]:
    # The thread of some versions of tqdm has no name of its own.
    kept = {
        thread
        for thread in threading.enumerate()
        if thread.name.startswith(KEPT) or type(thread).__name__ == "TMonitor"
    }
    return [thread for thread in threading.enumerate() if thread not in before | kept]


InstallPackage = Callable[[str, str, str], None]


@pytest.fixture
def install_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPackage]:
    """Give a function that installs a package of one module, given its name, its code and its entry points."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    installed: list[str] = []

    def install(name: str, code: str, entry_points: str) -> None:
        metadata = folder / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
        installed.append(name)
        importlib.invalidate_caches()
        errors._entry_point_modules.cache_clear()

    yield install
    for name in installed:
        sys.modules.pop(name, None)
    errors._entry_point_modules.cache_clear()
