"""Columns from Parquet files to batches of tensors, shuffled in a window and in order, in each service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

ROWS = 8_000_000

HERE = "in this process"
WORKER = "1 worker"
PLACES = {
    HERE: ("InProcess", 0),
    "1 thread": ("Threads", 1),
    "2 threads": ("Threads", 2),
    WORKER: ("MultiProcess", 1),
    "2 workers": ("MultiProcess", 2),
}
LIMIT = "the limit: pyarrow.dataset's scan, in order"
MAP, STREAM = "Hugging Face datasets, map-style", "Hugging Face datasets, streamed"
SHARES = {True: 0.6, False: 0.85}
"""Of the raw scan, what the better service should reach, shuffled and in order."""
CPU_NANOSECONDS = 95  # of a row, shuffled in this process
WORKER_CPU = 1.15  # of the CPU time in this process
TIMES = 100
SAME_BATCH = 0.03  # the largest share of neighbours in one batch


def _name(place: str, *, shuffled: bool) -> str:
    return f"feedpipe, {place}" if shuffled else f"feedpipe in order, {place}"


OURS = _name("2 workers", shuffled=True)

CONTESTANTS = (
    *(
        Contestant(
            _name(place, shuffled=shuffled),
            "parquet_feedpipe:measure",
            arguments={"service": service, "workers": workers, "shuffled": shuffled},
            ours=True,
        )
        for shuffled in (True, False)
        for place, (service, workers) in PLACES.items()
    ),
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
    verdicts = []
    if results.have(OURS):
        together = results.summaries[OURS].checked["same_batch"]
        share = f"shuffled: at most {SAME_BATCH:.0%} of neighbours in one batch"
        verdicts.append(Verdict(share, f"{together:.1%}", round(together, 2) <= SAME_BATCH))
    for shuffled, least in SHARES.items():
        names = [name for place in PLACES if results.have(name := _name(place, shuffled=shuffled))]
        if names and results.have(LIMIT):
            best = max(names, key=lambda name: results.ratio(LIMIT, name))
            shares = results.round_ratios(LIMIT, best)
            verdicts.append(Verdict.at_least(least, f"{best}: at least {least} of the raw scan", shares))
    here, worker = _name(HERE, shuffled=True), _name(WORKER, shuffled=True)
    if results.have(here):
        nanoseconds = [each["cpu_each"] * 1e9 for each in results.summaries[here].figures]
        target = f"{here}: at most {CPU_NANOSECONDS} ns of CPU a row"
        verdicts.append(Verdict.at_most(CPU_NANOSECONDS, target, nanoseconds, digits=0))
    if results.have(here, worker):
        ratios = results.round_ratios(worker, here, "cpu_each")
        target = f"{worker}: at most {WORKER_CPU} times the CPU {HERE}"
        verdicts.append(Verdict.at_most(WORKER_CPU, target, ratios))
    for peer in (MAP, STREAM):
        if results.have(peer, OURS):
            times = results.round_ratios(peer, OURS)
            verdicts.append(Verdict.at_least(TIMES, f"{OURS}: at least {TIMES} times {peer}", times, digits=0))
    return verdicts


WORKLOAD = Workload(
    name="parquet",
    title="8 files of 1,000,000 rows to batches of 4,096, as tensors; shuffled unless the row says otherwise",
    contestants=CONTESTANTS,
    columns=(
        Column("rows a second", lambda each: f"{1 / each.median():,.0f}"),
        Column("of the limit", lambda each: f"{1 / each.ratio:.3f}" if each.ratios else "-"),
        Column("ns of CPU a row", lambda each: f"{each.median('cpu_each') * 1e9:,.0f}"),
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
