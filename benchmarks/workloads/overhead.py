"""What the machinery itself costs: a chain of trivial functions over half a million integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contestants.tasks import BATCH, WINDOW, keep, plus_one
from ..model import HERE, Column, Contestant, Results, Summary, Verdict, Workload

ROWS = 500_000

SAME_BATCH = 0.03  # the largest share of neighbours in one batch, of rows that are many windows

LOADER = "feedpipe, Loader"
LOOP = "hand-written loop"
TUNED = "hand-written loop, tuned"
DATAPIPES = "torchdata 0.9 DataPipes"

CONTESTANTS = (
    Contestant(LOADER, "overhead_feedpipe:measure", arguments={"way": "loader"}, ours=True),
    Contestant("feedpipe, for x in pipe", "overhead_feedpipe:measure", arguments={"way": "plain"}, ours=True),
    Contestant(LOOP, "overhead_handwritten:measure", arguments={"loop": "plain"}),
    Contestant(TUNED, "overhead_handwritten:measure", arguments={"loop": "tuned"}),
    Contestant("torch DataLoader, workers 0", "overhead_dataloader:measure", "torch"),
    Contestant("WebDataset 1.0", "overhead_webdataset:measure", "webdataset"),
    Contestant("torchdata.nodes 0.11", "overhead_nodes:measure", "torchdata-0.11"),
    Contestant(DATAPIPES, "overhead_datapipes:measure", "torchdata-0.9"),
)


def _check(found: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with a contestant's rows, if anything is."""
    kept = [y for y in map(plus_one, range(arguments["rows"])) if keep(y)]
    expected = {
        "count": len(kept),
        "sum": sum(kept),
        "distinct": len(kept),
        "full_batches": len(kept) // BATCH,
        "largest_batch": BATCH,
        "same_seed_same_order": True,
        "other_seed_other_order": True,
    }
    for name, value in expected.items():
        if found[name] != value:
            return f"{name} is {found[name]} and should be {value}"
    if found["mean_move"] < WINDOW / 8:
        return f"hardly shuffled: a row moves {found['mean_move']:.0f} places on average"
    if len(kept) > 10 * WINDOW and round(found["same_batch"], 2) > SAME_BATCH:
        return f"hardly shuffled: {found['same_batch']:.1%} of neighbours are in one batch"
    if found["in_place"] > len(kept) / 100:
        return f"hardly shuffled: {found['in_place']} rows are in their old place"
    return None


def _judge(results: Results) -> list[Verdict]:
    if not results.have(LOADER):
        return []
    verdicts = []
    if results.have(LOOP):
        ratios = results.round_ratios(LOADER, LOOP)
        verdicts.append(Verdict.at_most(0.7, "Loader: at most 0.7 of the hand-written loop", ratios))
    if results.have(TUNED):
        ratios = results.round_ratios(LOADER, TUNED)
        verdicts.append(Verdict.at_most(1.0, "Loader: ahead of the tuned loop too", ratios))
    if results.have(DATAPIPES):
        times = results.round_ratios(DATAPIPES, LOADER)
        verdicts.append(Verdict.at_least(25, "Loader: at least 25 times DataPipes", times, digits=1))
    libraries = [each.contestant.name for each in results.peers if each.contestant.environment != HERE]
    if libraries:
        nearest = max(libraries, key=lambda name: results.ratio(LOADER, name))
        ratios = results.round_ratios(LOADER, nearest)
        verdicts.append(Verdict.at_most(1.0, f"Loader: ahead of every library, the nearest {nearest}", ratios))
    return verdicts


def _nanoseconds(summary: Summary) -> str:
    rows_in = summary.last("rows_in")
    return f"{summary.median() / rows_in * 1e9:.0f}"


WORKLOAD = Workload(
    name="overhead",
    title=f"range(500_000).map(f).filter(g).shuffle({WINDOW:_}).batch({BATCH})",
    contestants=CONTESTANTS,
    columns=(
        Column("ms a pass", lambda each: f"{each.median() * 1e3:.0f}"),
        Column("ns an input row", _nanoseconds),
        Column("of the loop", lambda each: f"{each.ratio:.2f}" if each.ratios else "-"),
        Column("mean move", lambda each: f"{each.checked['mean_move']:.0f}"),
        Column("same batch", lambda each: f"{each.checked['same_batch']:.1%}"),
    ),
    judge=_judge,
    baseline=LOOP,
    rounds=9,
    arguments={"rows": ROWS, "seed": 0},
    quick={"rows": 60_000},
    check=_check,
)
