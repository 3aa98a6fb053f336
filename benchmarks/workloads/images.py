"""Random crops of JPEG files, against the same functions in two plain processes, by CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contestants.images_tasks import SIDE, SIZES
from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

OURS, EXACT, COMPAT = "feedpipe, fast", "feedpipe, pixels of Pillow", "feedpipe's DataLoader, Pillow"
TORCH, LIMIT = "torch DataLoader, Pillow", "the same functions by hand, no batches"
#: How many times the CPU time of ours torch's takes, at least.
TIMES = {"500x375": 1.6, "2048x1536": 3.0}


def _of(size: str) -> tuple[Contestant, ...]:
    def contestant(name: str, target: str, environment: str = "here", ours: bool = False, **more: Any) -> Contestant:
        return Contestant(f"{size}: {name}", f"{target}:measure", environment, {"size": size, **more}, ours)

    return (
        contestant(LIMIT, "images_by_hand"),
        contestant(OURS, "images_feedpipe", ours=True, fast=True),
        contestant(EXACT, "images_feedpipe", ours=True, fast=False),
        contestant(COMPAT, "images_dataloader", ours=True, is_compat=True),
        contestant(TORCH, "images_dataloader", "torch"),
        contestant("WebDataset 1.0, Pillow", "images_webdataset", "webdataset"),
        contestant("Grain 0.2, Pillow", "images_grain", "grain"),
    )


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if found["count"] not in {count for _, _, count in SIZES.values()}:
        return f"{found['count']} images came"
    if found["shapes"] != [[SIDE, SIDE, 3]]:
        return f"images have the shapes {found['shapes']}"
    return None


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for size, times in TIMES.items():
        ours, limit, torch = (f"{size}: {name}" for name in (OURS, LIMIT, TORCH))
        if results.have(ours, limit):
            ratios = results.round_ratios(ours, limit)
            verdicts.append(Verdict.at_most(1.1, f"{size}: at most 1.1 of the same functions by hand", ratios))
        if results.have(ours, torch):
            ratios = results.round_ratios(torch, ours)
            verdicts.append(Verdict.at_least(times, f"{size}: torch DataLoader takes at least {times}", ratios))
    return verdicts


WORKLOAD = Workload(
    name="images",
    title="random crops of JPEG files to batches of 64 of 224x224, 2 workers, CPU time of all processes",
    contestants=[each for size in SIZES for each in _of(size)],
    columns=(
        Column("us of CPU an image", lambda each: f"{each.median() * 1e6:,.0f}"),
        Column("images a second", lambda each: f"{each.median('images_a_second'):,.0f}"),
    ),
    judge=_judge,
    baseline=f"500x375: {LIMIT}",
    metric="seconds_each",
    rounds=3,
    check=_check,
    prepare=lambda folder, _: made(folder, "images_tasks:make", {}),
)
