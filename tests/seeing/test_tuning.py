"""`fp.tune`: the first setting with which a loop does not wait, else what is missing; the order never changes.

`make soak PART=seeing` tunes all cases of `bottlenecks.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import feedpipe as fp
from feedpipe.errors import ArgumentError, ArgumentTypeError, PlanError

from ..soak import SOAK
from ..support.seeing import Tuning, with_concurrency
from .bottlenecks import CASES, napping_1, napping_6, numbers


def same_elements(pipe: fp.Pipe[Any], tuning: Tuning) -> bool:
    """Whether a loader with this setting gives what a loader without arguments gives."""
    tuned = with_concurrency(pipe, tuning.concurrency)
    with fp.Loader(pipe, seed=5) as usual, fp.Loader(tuned, tuning.service, shards=tuning.shards, seed=5) as loader:
        return list(usual) == list(loader)


def test_a_fast_pipe_needs_nothing() -> None:
    pipe = fp.from_sequence(range(2000)).shuffle().map(abs).batch(20)
    tuning = fp.tune(pipe, step_seconds=0.01, timeout=2)
    assert (tuning.service, tuning.shards, tuning.concurrency) == (fp.InProcess(), None, {})
    assert tuning.enough and tuning.waiting <= 0.05
    assert [trial.service for trial in tuning.trials] == [fp.InProcess()]
    assert str(tuning).splitlines()[-1] == "fp.Loader(pipe, fp.InProcess())"


def test_a_function_that_waits_gets_calls_at_a_time() -> None:
    pipe = numbers().shuffle().map(napping_6).batch(20)
    tuning = fp.tune(pipe, step_seconds=0.09, timeout=12)
    assert tuning.enough, str(tuning)
    (calls,) = tuning.concurrency.values()
    assert calls in (2, 4, 8)
    first, *_, call, line = str(tuning).splitlines()
    assert first.startswith("a step of the loop takes 90 ms, and its data ")
    assert "of it in `.map(napping_6)` at bottlenecks.py" not in first and "at test_tuning.py:" in first
    assert call.startswith(f".map(napping_6, concurrency={calls})  # at test_tuning.py:")
    assert line.startswith(f"fp.Loader(pipe, fp.{type(tuning.service).__name__}(")
    assert same_elements(pipe, tuning)


@pytest.mark.slow
def test_without_a_step_the_fastest_is_found() -> None:
    pipe = fp.from_sequence(range(1000)).map(napping_1).batch(10)
    tuning = fp.tune(pipe, timeout=4)
    seconds = {trial.seconds for trial in tuning.trials}
    chosen = next(trial for trial in tuning.trials if trial.service == tuning.service)
    assert chosen.seconds <= 1.1 * min(seconds) or tuning.concurrency
    assert not tuning.enough and "missing" not in str(tuning)
    assert "ms an element" in str(tuning)


def test_a_setting_that_cannot_run_is_named_and_left_out() -> None:
    pipe = fp.from_iterable(range(400)).map(napping_1, rng="global").batch(10)
    tuning = fp.tune(pipe, step_seconds=0.002, timeout=3, cpus=1)
    failed = [trial for trial in tuning.trials if trial.problem is not None]
    assert any(trial.concurrency for trial in failed) and any(isinstance(trial.service, fp.Threads) for trial in failed)
    for trial in failed:
        assert "rng" in str(trial.problem)
        assert any(line.endswith(f": {trial.problem}") for line in tuning.lines)
    assert not isinstance(tuning.service, fp.Threads)
    assert tuning.concurrency == {}


def test_wrong_arguments() -> None:
    pipe = fp.from_sequence(range(3))
    with pytest.raises(ArgumentTypeError, match="`pipe` must be a Pipe but got"):
        fp.tune([1])  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="`step_seconds` must be a number of seconds"):
        fp.tune(pipe, step_seconds="1")  # type: ignore[arg-type]
    for name in ("step_seconds", "cpus", "timeout"):
        with pytest.raises(ArgumentError, match=f"`{name}` must be > 0"):
            fp.tune(pipe, **{name: -1.0})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="`tune` needs a pipe with elements"):
        fp.tune(fp.from_sequence([]), timeout=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES] if SOAK > 1 else ["map that waits", "loop"])
def test_a_bottleneck_is_tuned_away_or_what_is_missing_is_said(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    pipe = case.pipe(tmp_path)
    tuning = fp.tune(pipe, step_seconds=case.loop or 0.001, timeout=40)
    assert tuning.enough != any(line.startswith("missing: ") for line in tuning.lines), str(tuning)
    if tuning.enough:
        assert tuning.waiting <= 0.05
    if name != "transport":
        assert same_elements(pipe, tuning)
