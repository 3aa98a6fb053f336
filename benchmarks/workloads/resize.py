"""Decoding of JPEG files at a smaller size, by `decode(resize=, fast=True)`."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

GOALS = {(640, 480): 1.5, (1024, 768): 1.5, (3000, 2000): 1.8}
"""By width and height: how many times as fast `fast=True` should be."""


def _name(width: int, height: int) -> str:
    return f"{width:,} x {height:,}"


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for size, least in GOALS.items():
        if results.have(name := _name(*size)):
            times = [each["exact"] / each["fast"] for each in results.summaries[name].figures]
            verdicts.append(Verdict.at_least(least, f"{name}: at least {least} times as fast", times))
    return verdicts


WORKLOAD = Workload(
    name="resize",
    title="JPEG files to images of 224 x 224, exactly and with fast=True, on one core",
    contestants=tuple(
        Contestant(_name(*size), "resize_feedpipe:measure", arguments={"width": size[0], "height": size[1]}, ours=True)
        for size in GOALS
    ),
    columns=(
        Column("ms, exactly", lambda each: f"{each.median('exact') * 1e3:.2f}"),
        Column("ms, fast", lambda each: f"{each.median('fast') * 1e3:.2f}"),
        Column("mean difference, of 255", lambda each: f"{each.median('difference'):.2f}"),
    ),
    judge=_judge,
    baseline=_name(640, 480),
    metric="fast",
    rounds=3,
    arguments={"rounds": 7},
    quick={"rounds": 3},
)
