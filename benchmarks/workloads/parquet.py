"""Columns from Parquet files, shuffled in a window, to batches of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

ROWS = 8_000_000

OURS = "feedpipe, 2 workers"
LIMIT = "the limit: pyarrow.dataset's scan, in order"
MAP, STREAM = "Hugging Face datasets, map-style", "Hugging Face datasets, streamed"
SHARE = 0.5
TIMES = 100
SAME_BATCH = 0.03  # the largest share of neighbours in one batch

CONTESTANTS = (
    Contestant(OURS, "parquet_feedpipe:measure", arguments={"workers": 2}, ours=True),
    Contestant("feedpipe, in this process", "parquet_feedpipe:measure", arguments={"workers": 0}, ours=True),
    Contestant("torch DataLoader, batches by hand", "parquet_dataloader:measure", "datasets", {"style": "batches"}),
    Contestant("torch DataLoader, row by row", "parquet_dataloader:measure", "datasets", {"style": "rows"}),
    Contestant(MAP, "parquet_datasets:measure", "datasets", {"style": "map"}),
    Contestant(STREAM, "parquet_datasets:measure", "datasets", {"style": "streamed"}),
    Contestant(LIMIT, "parquet_scan:measure"),
)


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    if found["torn"] or found["twice"]:
        return f"{found['torn']} rows are torn apart, {found['twice']} come twice"
    return None


def _judge(results: Results) -> list[Verdict]:
    if not results.have(OURS):
        return []
    together = results.summaries[OURS].checked["same_batch"]
    share = f"at most {SAME_BATCH:.0%} of neighbours in one batch"
    verdicts = [Verdict(share, f"{together:.1%}", round(together, 2) <= SAME_BATCH)]
    if results.have(LIMIT):
        shares = results.round_ratios(LIMIT, OURS)
        verdicts.append(Verdict.at_least(SHARE, f"at least {SHARE} of the raw scan", shares))
    for peer in (MAP, STREAM):
        if results.have(peer):
            times = results.round_ratios(peer, OURS)
            verdicts.append(Verdict.at_least(TIMES, f"at least {TIMES} times {peer}", times, digits=0))
    return verdicts


WORKLOAD = Workload(
    name="parquet",
    title="8 files of 1,000,000 rows to shuffled batches of 4,096, as tensors",
    contestants=CONTESTANTS,
    columns=(
        Column("rows a second", lambda each: f"{1 / each.median():,.0f}"),
        Column("of the limit", lambda each: f"{1 / each.ratio:.3f}" if each.ratios else "-"),
        Column("same batch", lambda each: f"{each.checked['same_batch']:.1%}"),
        Column("neighbours apart", lambda each: f"{each.checked['distance']:,.0f}"),
    ),
    judge=_judge,
    baseline=LIMIT,
    metric="seconds_each",
    rounds=5,
    arguments={"rows": ROWS, "seconds": 5.0},
    quick={"rows": 400_000, "seconds": 1.0},
    check=_check,
    prepare=lambda folder, _: made(folder, "parquet_tasks:make", {"rows": ROWS}),
)
