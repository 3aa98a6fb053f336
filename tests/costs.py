"""The cost of each test, which keeps the mark `slow` true: the CPU seconds of its process and of all that it starts.

The end of a run with `-m "not slow"` names the tests that took more than `SLOW_SECONDS`. In CI, one that took more than
`LIMIT_SECONDS` fails the run: CPU seconds vary less than the time on the wall, but a shared machine can triple them,
and the first test of a process that needs torch pays for its import. Systems without `/proc/<pid>/task/<tid>/children`
show nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

SLOW_SECONDS = 1.0
LIMIT_SECONDS = 15.0
SHOWN = 15

Costs = dict[
    str, tuple[float, bool]
]  # CPU seconds, and whether the test has the mark `slow` or `hdfs`, by the test's id
COSTS = pytest.StashKey[Costs]()
HAS_CHILDREN = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, of its descendants, and of those that have ended and were waited for."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(_ticks_of_descendants(os.getpid())) / os.sysconf("SC_CLK_TCK")


def _ticks_of_descendants(process: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:  # it has ended
        return
    for thread in threads:
        try:
            children = Path(f"/proc/{process}/task/{thread}/children").read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in children:
            try:
                stat = Path(f"/proc/{child}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            yield sum(map(int, stat.rpartition(")")[2].split()[11:15]))  # user, system, and those of ended children
            yield from _ticks_of_descendants(int(child))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = cpu_seconds()
    result = yield
    marked = any(item.get_closest_marker(mark) for mark in ("slow", "hdfs"))
    item.config.stash.setdefault(COSTS, {})[item.nodeid] = cpu_seconds() - before, marked
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the costs of a process of pytest-xdist; one that has crashed brings none."""
    node.config.stash.setdefault(COSTS, {}).update(getattr(node, "workeroutput", {}).get("costs", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    costs = session.config.stash.get(COSTS, {})
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["costs"] = costs
    elif HAS_CHILDREN and os.environ.get("CI") and _leaves_out_slow(session.config) and unmarked(costs, LIMIT_SECONDS):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    costs = config.stash.get(COSTS, {})
    if not HAS_CHILDREN or len(costs) < 2 or not _leaves_out_slow(config):
        return
    files: Counter[str] = Counter()
    for name, (seconds, _) in costs.items():
        files[name.partition("::")[0]] += seconds
    dearest = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in files.most_common(5))
    write = terminalreporter.write_line
    write(f"CPU of {len(costs)} tests: {sum(files.values()):.0f} s; most in {dearest}")
    for seconds, name in unmarked(costs, SLOW_SECONDS)[:SHOWN]:
        fails = f"; more than {LIMIT_SECONDS:.0f} s fails in CI" if seconds > LIMIT_SECONDS else ""
        write(f"{seconds:6.2f} s of CPU without the mark `slow`: {name}{fails}")


def _leaves_out_slow(config: pytest.Config) -> bool:
    """Return whether the run is one that the mark is for; trainers and databases have runs of their own."""
    return "not slow" in config.getoption("markexpr")


def unmarked(costs: Costs, limit: float) -> list[tuple[float, str]]:
    """Return the tests without a mark that took more than `limit` CPU seconds, the dearest first."""
    return sorted(
        ((seconds, name) for name, (seconds, marked) in costs.items() if seconds > limit and not marked), reverse=True
    )
