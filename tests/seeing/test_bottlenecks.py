"""Reports name what holds a loop back: its kind, operator and line, and what other numbers of workers would change.

`make soak PART=seeing` runs all cases, in all services.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import feedpipe as fp

from ..soak import SOAK
from ..support.seeing import Report
from .bottlenecks import CASES, IN_PROCESS, RUNS, SERVICES, WORKERS, napping, napping_1, problem, run

USUAL = ["source", "map that waits", "collate", "filter of a stream", "loop"]
SHOWN = [(name, service) for name, service in RUNS if SOAK > 1 or (name in USUAL and service in (IN_PROCESS, WORKERS))]
COSTS = {WORKERS: pytest.mark.slow}


@pytest.mark.parametrize(
    ("name", "service"),
    [pytest.param(name, service, marks=COSTS.get(service, ()), id=f"{name}-{service}") for name, service in SHOWN],
)
def test_a_report_names_what_holds_the_loop_back(name: str, service: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert problem(name, run(case.pipe(tmp_path), SERVICES[service](), case.loop)) is None


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(100 if SOAK > 1 else 1))
def test_a_fast_pipe_is_not_the_bottleneck(turn: int) -> None:
    report = run(fp.from_sequence(range(100_000)).shuffle().map(abs).batch(256), fp.InProcess(), 0.01)
    assert report.bottleneck is None, str(report)
    assert "not the bottleneck" in report.verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "function", "size"), [(0.015, napping_1, 20), (0.006, napping_1, 20), (0.03, napping, 40)]
)
def test_a_forecast_is_near_what_happens(loop: float, function: object, size: int) -> None:
    def pipe(concurrency: int = 1) -> fp.Pipe[object]:
        return fp.from_sequence(range(2400)).shuffle().map(function, concurrency=concurrency).batch(size)  # type: ignore[call-overload]

    now = run(pipe(), fp.InProcess(), loop)
    assert abs(now.forecast(workers=2) - run(pipe(), fp.MultiProcess(2), loop).waiting) < 0.2
    assert abs(now.forecast(workers=4) - run(pipe(), fp.Threads(4), loop).waiting) < 0.2
    assert abs(now.forecast(concurrency=4) - run(pipe(4), fp.InProcess(), loop).waiting) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["barrier", "agreement"])
def test_a_slow_rank_is_named(tmp_path: Path, wait: str) -> None:
    command = [sys.executable, "-m", "tests.seeing.ranks_job", str(tmp_path)]
    ranks = [subprocess.Popen([*command, str(rank), wait]) for rank in range(4)]
    assert [process.wait() for process in ranks] == [0] * 4
    gathered = [Report.load(tmp_path / f"gathered-{rank}.json") for rank in range(4)]
    assert len({report.verdict for report in gathered}) == 1
    found = gathered[0].bottleneck
    assert found is not None, str(gathered[0])
    assert (found.kind, found.operator[:5]) == ("rank", ".map("), str(gathered[0])
    assert "Rank 2 holds the others back" in gathered[0].verdict
    for rank in (0, 1, 3):
        alone = Report.load(tmp_path / f"rank-{rank}.json")
        assert alone.bottleneck is None, str(alone)
        assert "workers=" not in alone.verdict
        if wait == "agreement":
            assert "for other ranks, so this rank is not the slowest: `fp.gather_report" in alone.verdict


def test_one_line_is_logged_of_an_epoch_that_waited(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "feedpipe"):
        run(fp.from_sequence(range(1300)).map(napping).batch(20), fp.InProcess(), 0.001)
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("epoch 0: the training loop waits")
    assert f"`.map(napping)` at {Path(__file__).name}:" in line
