"""Four ranks of tensor parallelism on one machine: each reads for itself, or one reads for all."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

EACH, ONE = "each rank reads", "one rank reads, `replicas=`"
SHARE = 0.1

CONTESTANTS = (
    Contestant(EACH, "replicas_feedpipe:measure", arguments={"shared": False}, ours=True),
    Contestant(ONE, "replicas_feedpipe:measure", arguments={"shared": True}, ours=True),
)


def _judge(results: Results) -> list[Verdict]:
    if not results.have(ONE):
        return []
    shares = [each["share"] for each in results.summaries[ONE].figures]
    return [Verdict.at_most(SHARE, f"CPU of another rank: at most {SHARE:.0%} of the reader's", shares, 3)]


WORKLOAD = Workload(
    name="replicas",
    title="4 ranks that need the same batches of 32 images of 150 KB, which are unpacked by zlib",
    contestants=CONTESTANTS,
    columns=(
        Column.median("CPU s, reader", "cpu", 2),
        Column.median("CPU s, another rank", "cpu_other", 2),
        Column.median("CPU s, all", "cpu_all", 2),
        Column.median("wall s", "wall", 2),
    ),
    judge=_judge,
    baseline=EACH,
    metric="cpu_all",
    rounds=3,
    arguments={"batches": 50},
    quick={"batches": 20},
)
