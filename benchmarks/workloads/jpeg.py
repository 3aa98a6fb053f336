"""Images from files, decoded, resized and batched, against two processes that only decode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

IMAGES = 2048

OURS = "feedpipe"
LIMIT = "the limit: decoding alone, two processes"
SHARE = 0.95

CONTESTANTS = (
    Contestant(OURS, "jpeg_feedpipe:measure", ours=True),
    Contestant("torch DataLoader", "jpeg_dataloader:measure", "torch"),
    Contestant("WebDataset 1.0", "jpeg_webdataset:measure", "webdataset"),
    Contestant(LIMIT, "jpeg_limit:measure"),
)


def check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if found["wrong"] or not found["complete"]:
        return f"{found['wrong']} batches begin with another image" if found["wrong"] else "not every image, once"
    return None


def _judge(results: Results) -> list[Verdict]:
    if not results.have(OURS):
        return []
    ordered = all(each["in_order"] for each in results.summaries[OURS].figures)
    verdicts = [Verdict("in the order of the files", "in order" if ordered else "not in order", ordered)]
    if results.have(LIMIT):
        shares = results.round_ratios(LIMIT, OURS)
        verdicts.insert(0, Verdict.at_least(SHARE, f"at least {SHARE} of the limit", shares))
    return verdicts


WORKLOAD = Workload(
    name="jpeg",
    title="JPEGs of 500x375 to batches of 64 of 224x224, 2 workers",
    contestants=CONTESTANTS,
    columns=(
        Column("images a second", lambda each: f"{1 / each.median():.0f}"),
        Column("of the limit", lambda each: f"{1 / each.ratio:.2f}" if each.ratios else "-"),
        Column("in order", lambda each: "yes" if all(one["in_order"] for one in each.figures) else "no"),
    ),
    judge=_judge,
    baseline=LIMIT,
    metric="seconds_each",
    rounds=7,
    arguments={"images": IMAGES},
    quick={"images": 512},
    check=check,
    prepare=lambda folder, _: made(folder, "jpeg_tasks:make", {"images": IMAGES}),
)
