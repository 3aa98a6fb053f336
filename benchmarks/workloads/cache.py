"""Later epochs from `cache`, against the same epochs from uncompressed Arrow files."""

from __future__ import annotations

from ..harness import made
from ..model import Column, Contestant, Results, Verdict, Workload

ROWS = 2_000_000
SHARE = 0.8

_ORDERS = {False: "in order", True: "shuffled"}


def _name(cached: bool, shuffled: bool) -> str:
    return f"{'cache' if cached else 'Arrow files'}, {_ORDERS[shuffled]}"


CONTESTANTS = tuple(
    Contestant(
        _name(cached, shuffled), "cache_tasks:measure", arguments={"cached": cached, "shuffled": shuffled}, ours=cached
    )
    for shuffled in _ORDERS
    for cached in (True, False)
)


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for shuffled, order in _ORDERS.items():
        ours, files = _name(True, shuffled), _name(False, shuffled)
        if results.have(ours, files):
            verdicts.append(
                Verdict.at_least(SHARE, f"{order}: at least {SHARE} of Arrow files", results.round_ratios(files, ours))
            )
    return verdicts


WORKLOAD = Workload(
    name="cache",
    title=f"later epochs of {ROWS:,} rows of 9 numbers, in batches of 1,024 as tensors",
    contestants=CONTESTANTS,
    columns=(Column("rows a second", lambda each: f"{1 / each.median():,.0f}"),),
    judge=_judge,
    baseline=_name(False, False),
    metric="seconds_each",
    rounds=5,
    arguments={"passes": 3},
    quick={"passes": 1},
    prepare=lambda folder, _: made(folder, "cache_tasks:make", {"rows": ROWS}),
)
