"""Images and labels from tar files: as they are, and decoded."""

from __future__ import annotations

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload
from .jpeg import check

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


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for work in _WORKS:
        ours, theirs = _name("feedpipe", work), _name("WebDataset 1.0", work)
        if results.have(ours, theirs):
            times = results.round_ratios(theirs, ours)
            verdicts.append(Verdict.at_least(1, f"{_WORKS[work]}: ahead of WebDataset", times))
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
    check=check,
    prepare=lambda folder, _: made(folder, "tar_tasks:make", {"images": IMAGES}),
)
