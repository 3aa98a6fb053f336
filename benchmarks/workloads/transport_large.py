"""How fast large batches come from workers: 256 images of 3x224x224 bytes, 38.5 MB."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload
from .transport_small import check

COPY = "plain copy, one process"
TIMES = 2

_OURS = "transport_feedpipe:measure"
_TORCH = "transport_dataloader:measure"
_BYTES = 256 * 3 * 224 * 224


def _name(who: str, workers: int) -> str:
    return f"{who}, {workers} worker{'s' if workers > 1 else ''}"


CONTESTANTS = (
    *(Contestant(_name("feedpipe", n), _OURS, arguments={"work": "batch", "workers": n}, ours=True) for n in (1, 2)),
    *(Contestant(_name("torch DataLoader", n), _TORCH, "torch", {"work": "batch", "workers": n}) for n in (1, 2)),
    Contestant("feedpipe, 2 workers, collating", _OURS, arguments={"work": "sample", "workers": 2}, ours=True),
    Contestant("torch DataLoader, 2 workers, collating", _TORCH, "torch", {"work": "sample", "workers": 2}),
    Contestant(COPY, "transport_copy:measure"),
)


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for workers in (1, 2):
        ours, torch = _name("feedpipe", workers), _name("torch DataLoader", workers)
        if results.have(ours, torch):
            times = results.round_ratios(torch, ours)
            verdicts.append(Verdict.at_least(TIMES, f"{ours}: at least {TIMES} times DataLoader", times))
    return verdicts


WORKLOAD = Workload(
    name="transport-large",
    title="batches of 256x3x224x224 bytes, 38.5 MB",
    contestants=CONTESTANTS,
    columns=(
        Column("ms a batch", lambda each: f"{each.median() * 1e3:.1f}"),
        Column("GB/s", lambda each: f"{_BYTES / each.median() / 1e9:.2f}"),
        Column("of a plain copy", lambda each: f"{1 / each.ratio:.2f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline=COPY,
    metric="seconds_each",
    rounds=7,
    arguments={"seconds": 3.0},
    quick={"seconds": 0.5},
    check=check,
)
