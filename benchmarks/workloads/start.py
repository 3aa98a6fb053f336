"""How long it takes from making a loader to its first batch, by start method, at once or after other work."""

from __future__ import annotations

from typing import Any

from ..model import Column, Contestant, Results, Verdict, Workload
from .transport_small import check

#: The most seconds to the first batch, by the seconds of other work between making the loader and its first batch.
LIMITS = {0.0: 0.5, 1.0: 0.15}
PIPES = ("tensors", "rows", "function")
TORCHS = ("forkserver", "spawn", "fork")


def _after(name: str, work: float) -> str:
    return f"{name}, after {work:g} s of other work" if work else name


def _ours(pipe: str, work: float) -> Contestant:
    arguments = {"pipe": pipe, "work": work}
    return Contestant(_after(f"feedpipe, {pipe}", work), "start_feedpipe:measure", "here", arguments, True)


def _torchs(method: str, work: float = 0.0, is_compat: bool = False) -> Contestant:
    arguments: dict[str, Any] = {"method": method, "work": work, "is_compat": is_compat}
    name = "feedpipe's DataLoader" if is_compat else "torch DataLoader"
    where = "here" if is_compat else "torch"
    return Contestant(_after(f"{name}, {method}", work), "start_dataloader:measure", where, arguments, is_compat)


GOALS = {
    each.name: (each, limit)
    for work, limit in LIMITS.items()
    for each in (*(_ours(pipe, work) for pipe in PIPES), _torchs("forkserver", work, is_compat=True))
}
CONTESTANTS = (
    *(each for each, _ in GOALS.values()),
    *(_torchs(method) for method in TORCHS),
)


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for name, (_, limit) in GOALS.items():
        if results.have(name):
            seconds = [each["seconds"] for each in results.summaries[name].figures]
            verdicts.append(Verdict.at_most(limit, f"{name}: at most {limit} s", seconds))
    return verdicts


WORKLOAD = Workload(
    name="start",
    title="from making the loader, torch imported, to the first batch of 2 workers",
    contestants=CONTESTANTS,
    columns=(
        Column("seconds", lambda each: f"{each.median():.3f}"),
        Column("of DataLoader, forkserver", lambda each: f"{each.ratio:.2f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline="torch DataLoader, forkserver",
    rounds=7,
    check=check,
)
