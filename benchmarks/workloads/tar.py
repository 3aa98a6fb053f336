"""Images and labels from tar files: as they are, and decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload, median, spread

IMAGES = 2048

_WORKS = {"raw": "members as bytes", "pixels": "decoded"}


def _name(who: str, work: str) -> str:
    return f"{who}, {_WORKS[work]}"


CONTESTANTS = tuple(
    each
    for work in _WORKS
    for each in (
        Contestant(_name("feedpipe", work), "tar_feedpipe:measure", arguments={"work": work}, ours=True),
        Contestant(_name("WebDataset 1.0", work), "tar_webdataset:measure", "webdataset", {"work": work}),
    )
)


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if found["wrong"] or not found["complete"]:
        return f"{found['wrong']} batches begin with another image" if found["wrong"] else "not every image, once"
    return None


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for work in _WORKS:
        ours, theirs = _name("feedpipe", work), _name("WebDataset 1.0", work)
        if results.have(ours, theirs):
            times = results.round_ratios(theirs, ours)
            measured = spread(times, lambda each: each >= 1)
            verdicts.append(Verdict(f"{_WORKS[work]}: ahead of WebDataset", measured, median(times) >= 1))
    return verdicts


WORKLOAD = Workload(
    name="tar",
    title="images and labels from 8 tar files, in batches of 64, 2 workers",
    contestants=CONTESTANTS,
    columns=(Column("rows a second", lambda each: f"{1 / each.median():,.0f}"),),
    judge=_judge,
    baseline=_name("WebDataset 1.0", "raw"),
    metric="seconds_each",
    rounds=7,
    arguments={"images": IMAGES},
    quick={"images": 512},
    check=_check,
    prepare=lambda folder, _: made(folder, "tar_tasks:make", {"images": IMAGES}),
)
