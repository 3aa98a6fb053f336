"""What it costs to bring a small element from one worker: a dict of ten tensors of 256 numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import Column, Contestant, Results, Verdict, Workload

OURS = "feedpipe"
TORCH = "torch DataLoader"
TIMES = 30

_OURS = "transport_feedpipe:measure"

CONTESTANTS = (
    Contestant(OURS, _OURS, arguments={"work": "tensors", "workers": 1}, ours=True),
    Contestant("feedpipe, NumPy arrays", _OURS, arguments={"work": "arrays", "workers": 1}, ours=True),
    Contestant(TORCH, "transport_dataloader:measure", "torch", {"work": "tensors", "workers": 1}),
    Contestant("feedpipe, no worker", _OURS, arguments={"work": "tensors", "workers": 0}, ours=True),
)


def check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    return f"{found['wrong']} of the first elements are not the right ones" if found["wrong"] else None


def _judge(results: Results) -> list[Verdict]:
    if not results.have(OURS, TORCH):
        return []
    times = results.round_ratios(TORCH, OURS)
    return [Verdict.at_least(TIMES, f"at least {TIMES} times DataLoader", times, digits=1)]


WORKLOAD = Workload(
    name="transport-small",
    title="a dict of ten float32 tensors of 256 elements, from 1 worker",
    contestants=CONTESTANTS,
    columns=(
        Column("microseconds an element", lambda each: f"{each.median() * 1e6:.0f}"),
        Column("elements a second", lambda each: f"{1 / each.median():.0f}"),
        Column("times DataLoader", lambda each: f"{1 / each.ratio:.1f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline=TORCH,
    metric="seconds_each",
    rounds=7,
    arguments={"seconds": 3.0},
    quick={"seconds": 0.5},
    check=check,
)
