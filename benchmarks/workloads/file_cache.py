"""The second epoch from a `FileCache` of a slow S3 server (moto), against local files and the first epoch."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload
from .s3 import OBJECTS, prepare

SHARE = 0.8
COPIES, LOCAL, REMOTE = "local copies, the second epoch", "local files", "S3 with 50 ms, the first epoch"

CONTESTANTS = tuple(
    Contestant(who, "file_cache_feedpipe:measure", arguments={"place": place}, ours=True)
    for who, place in ((COPIES, "copies"), (LOCAL, "local"), (REMOTE, "remote"))
)


def _judge(results: Results) -> list[Verdict]:
    if not results.have(COPIES, LOCAL):
        return []
    return [Verdict.at_least(SHARE, f"at least {SHARE} of local files", results.round_ratios(LOCAL, COPIES))]


WORKLOAD = Workload(
    name="file-cache",
    title=f"lines from {OBJECTS} objects of 8 MiB through a `FileCache`, one process",
    contestants=CONTESTANTS,
    columns=(Column("MB/s", lambda each: f"{each.median('megabytes') / each.median():.0f}"),),
    judge=_judge,
    baseline=LOCAL,
    rounds=5,
    arguments={"objects": OBJECTS},
    quick={"objects": 8},
    prepare=prepare,
)
