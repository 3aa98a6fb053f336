"""How long it takes from making a loader to its first batch, by start method."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload
from .transport_small import check

LIMIT = 0.5
METHODS = ("forkserver", "fork")
TORCHS = ("forkserver", "spawn", "fork")

_OURS = "start_feedpipe:measure"
_TORCH = "start_dataloader:measure"


def _ours(pipe: str, method: str) -> str:
    return f"feedpipe, {method}, {pipe}"


CONTESTANTS = (
    *(
        Contestant(_ours(pipe, method), _OURS, arguments={"pipe": pipe, "method": method}, ours=True)
        for pipe in ("tensors", "rows")
        for method in METHODS
    ),
    *(Contestant(f"torch DataLoader, {method}, tensors", _TORCH, "torch", {"method": method}) for method in TORCHS),
)


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for name in (_ours("tensors", "forkserver"), _ours("rows", "forkserver")):
        if results.have(name):
            ours = results.summaries[name]
            seconds = [each["seconds"] for each in ours.figures]
            verdicts.append(Verdict.at_most(LIMIT, f"{name}: at most {LIMIT} s", seconds))
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
    baseline="torch DataLoader, forkserver, tensors",
    rounds=7,
    check=check,
)
