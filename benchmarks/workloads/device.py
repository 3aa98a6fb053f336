"""How fast batches of images come to a GPU, and how long a training step waits for them. `--quick` runs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import Column, Contestant, Results, Verdict, Workload

LIMIT = "copies from pinned memory, by hand"
SHARE = 0.95
WAITING = 0.01
WORKS = ("transfer", "transformer", "resnet")

_OURS = "device_feedpipe:measure"
_TORCH = "device_dataloader:measure"
_GRAIN = "device_grain:measure"


def _name(who: str, work: str, workers: int) -> str:
    return f"{who}, {work}, {workers} workers"


CONTESTANTS = (
    *(
        Contestant(_name("feedpipe", work, n), _OURS, arguments={"work": work, "workers": n}, ours=True)
        for work in WORKS
        for n in (0, 4)
    ),
    *(Contestant(_name("torch DataLoader", work, 4), _TORCH, arguments={"work": work, "workers": 4}) for work in WORKS),
    *(
        Contestant(_name("Grain 0.2", work, 4), _GRAIN, "grain-torch", arguments={"work": work, "workers": 4})
        for work in WORKS
    ),
    Contestant(LIMIT, "device_copy:measure", arguments={"work": "transfer"}),
)


def check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if not found["right"]:
        return "not every image, once, in order"
    return None if found["on_device"] else "not on the device"


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    ours = _name("feedpipe", "transfer", 4)
    if results.have(ours, LIMIT):
        shares = results.round_ratios(LIMIT, ours)
        verdicts.append(Verdict.at_least(SHARE, f"{ours}: at least {SHARE} of the pinned copy", shares))
    for work in WORKS[1:]:
        ours = _name("feedpipe", work, 4)
        if results.have(ours):
            waiting = [each["waiting"] for each in results.summaries[ours].figures]
            verdicts.append(Verdict.at_most(WAITING, f"{ours}: waits at most {WAITING:.0%} of the time", waiting))
    return verdicts


WORKLOAD = Workload(
    name="device",
    title="batches of 256x3x224x224 bytes to normalised floats on a GPU, and training steps",
    contestants=CONTESTANTS,
    columns=(
        Column("ms a batch", lambda each: f"{each.median() * 1e3:.1f}"),
        Column("GB/s", lambda each: f"{each.last('gigabytes'):.1f}"),
        Column("waits", lambda each: f"{each.last('waiting'):.1%}"),
        Column("of the pinned copy", lambda each: f"{1 / each.ratio:.2f}" if each.ratios else "-"),
    ),
    judge=_judge,
    baseline=LIMIT,
    metric="seconds_each",
    rounds=5,
    arguments={"device": "cuda", "seconds": 10.0},
    quick={"device": "cpu", "seconds": 0.5},
    check=check,
)
