"""A full shuffle of what does not fit into memory: what `load(path)` costs, and what its rows cost then."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..contestants.load_disk_feedpipe import FORMATS, write
from ..model import Column, Contestant, Results, Verdict, Workload

WRITING, SHUFFLING = 0.8, 0.5
WAYS = {
    "read": "read",
    "load": "load(path), the first time",
    "window": "shuffle(window=50,000)",
    "full": "load(path).shuffle()",
}


def _name(form: str, way: str) -> str:
    return f"{form}: {WAYS[way]}"


CONTESTANTS = [
    Contestant(_name(form, way), "load_disk_feedpipe:measure", arguments={"form": form, "way": way}, ours=True)
    for form in FORMATS
    for way in WAYS
]


def _prepare(folder: Path, stack: ExitStack) -> dict[str, Any]:
    write(folder)
    return {"folder": str(folder)}


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for form in FORMATS:
        for way, base, limit, what in (
            ("load", "read", WRITING, "of the speed of reading, to write"),
            ("full", "window", SHUFFLING, "of the speed of a window"),
        ):
            names = _name(form, base), _name(form, way)
            if results.have(*names):
                verdicts.append(
                    Verdict.at_least(limit, f"{form}: at least {limit} {what}", results.round_ratios(*names))
                )
    return verdicts


WORKLOAD = Workload(
    name="load-disk",
    title="rows of a label, a number and about 200 bytes of text, in batches of 256, in files of 4 MiB",
    contestants=CONTESTANTS,
    columns=(Column("rows a second", lambda each: f"{1 / each.median('seconds_each'):,.0f}"),),
    judge=_judge,
    baseline=_name("Parquet", "read"),
    metric="seconds_each",
    rounds=3,
    prepare=_prepare,
)
