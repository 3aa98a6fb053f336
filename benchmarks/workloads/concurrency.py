"""A function that waits 50 ms, for 16 rows at a time."""

from __future__ import annotations

from ..model import Column, Contestant, Results, Verdict, Workload

THREADS = 16
SHARE = 0.9
OURS, STREAMED = "feedpipe, indexed", "feedpipe, streamed"
EXECUTOR = "ThreadPoolExecutor by hand"
PEERS = ("tf.data", "Grain 0.2")

CONTESTANTS = (
    Contestant(OURS, "concurrency_feedpipe:measure", arguments={"streamed": False}, ours=True),
    Contestant(STREAMED, "concurrency_feedpipe:measure", arguments={"streamed": True}, ours=True),
    Contestant(EXECUTOR, "concurrency_executor:measure"),
    Contestant(PEERS[0], "concurrency_tfdata:measure", "tensorflow"),
    Contestant(PEERS[1], "concurrency_grain:measure", "grain"),
)


def _judge(results: Results) -> list[Verdict]:
    verdicts = []
    for ours in (OURS, STREAMED):
        if results.have(ours):
            share = results.summaries[ours].median("share")
            verdicts.append(Verdict(f"{ours}: at least {SHARE} of 16 rows in 50 ms", f"{share:.2f}", share >= SHARE))
        for peer in PEERS:
            if results.have(ours, peer):
                ratios = results.round_ratios(peer, ours)
                verdicts.append(Verdict.at_least(0.95, f"{ours}: as fast as {peer}", ratios))
    return verdicts


WORKLOAD = Workload(
    name="concurrency",
    title=f"a function that waits 50 ms, {THREADS} calls at a time, results in order",
    contestants=CONTESTANTS,
    columns=(
        Column("ms a pass", lambda each: f"{each.median() * 1e3:.0f}"),
        Column("of 16 rows in 50 ms", lambda each: f"{each.median('share'):.2f}"),
    ),
    judge=_judge,
    baseline=EXECUTOR,
    rounds=5,
    arguments={"rows": 800, "threads": THREADS},
    quick={"rows": 160},
)
