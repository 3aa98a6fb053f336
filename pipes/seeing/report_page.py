"""`report_page`: a report as a page: the verdict, and tables of operators, threads, steps and ranks."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.times import IN_WORDS
from .html import Html, bar, fragment, html, page, prose, table
from .report import Report, percentile
from .verdict import RankTimes, RankView


def report_page(report: Report) -> str:
    """The page, in one file that loads nothing."""
    parts = [
        html("<p>What to do: {}.</p>", prose(report.bottleneck.repair)) if report.bottleneck is not None else None,
        html("<p>{}</p>", _summary(report)),
        _section("Operators", _operators(report)),
        _section("Threads", _threads(report)),
        _section("Steps", _steps(report)),
        _section("Ranks", _ranks(report.ranks)) if len(report.ranks) > 1 else None,
    ]
    return page(report.verdict, parts)


def report_fragment(report: Report) -> str:
    """The verdict, the operators and the threads, for a notebook."""
    threads = html("<details><summary>threads</summary>{}</details>", _threads(report))
    return fragment(
        html("<div><b>{}</b></div><div>{}</div>", prose(report.verdict), _summary(report)), _operators(report), threads
    )


def _section(title: str, content: Html) -> Html:
    return html("<h2>{}</h2>{}", title, content)


def _summary(report: Report) -> str:
    dry = "" if report.dry is None else f"; the GPU ran dry in {report.dry:.0%} of the steps"
    ranks = f"{len(report.ranks)} ranks, " if len(report.ranks) > 1 else ""
    return (
        f"{ranks}{report.steps:,} steps; a step takes {duration(report.step_seconds)} without its wait; "
        f"{duration(report.start_seconds)} to the first element; the loop waits {report.waiting:.0%} of its time{dry}"
    )


def _operators(report: Report) -> Html:
    lines = [
        (
            html("<code>{}</code>", op.operator),
            op.where,
            f"{'' if op.measured == 1 else 'about '}{op.rows:,}",
            duration(op.seconds),
            bar(op.share),
            f"{op.cpu:.0%}",
            f"{op.waits:.0%}",
            op.notes,
        )
        for op in report.operators
    ]
    head = ("operator", "line", "rows", "own time", "share of the work", "on a CPU", "waits", "")
    return table(head, lines, (2, 3, 5, 6))


def _threads(report: Report) -> Html:
    lines: list[Sequence[object]] = []
    for thread in report.threads:
        states = sorted(thread.states.items(), key=lambda item: -item[1])
        did = [
            html("<div>{}</div>", bar(share, f"{share:.0%} {IN_WORDS[state]}"))
            for state, share in states
            if share >= 0.005
        ]
        cpu = "" if thread.cpu is None else f"{thread.cpu:.0%}"
        lines.append((_of_rank(report.ranks, thread.rank, thread.name), duration(thread.seconds), cpu, did))
    return table(("thread", "time", "on a CPU", "what it did"), lines, (1, 2))


def _steps(report: Report) -> Html:
    """How long steps waited, by powers of two."""
    waits, total = report.waits, max(1, sum(report.waits))
    lines: list[Sequence[object]] = [
        (f"up to {duration(2**place / 1e9)}", bar(count / total)) for place, count in enumerate(waits) if count
    ]
    lines += [(f"{part}% wait less than", duration(percentile(waits, part / 100))) for part in (50, 95, 99)]
    return table(("", "waits of steps"), lines)


def _ranks(ranks: Sequence[RankTimes]) -> Html:
    lines = [
        (
            f"rank {view.seen.rank}",
            f"{view.steps:,}",
            duration(view.step_ns / 1e9),
            duration(view.made_ns / 1e9),
            bar(view.waiting),
            view.seen.workers,
        )
        for view in map(RankView, ranks)
    ]
    return table(("", "steps", "a step", "work for a step", "waits", "workers"), lines, (1, 2, 3, 5))


def _of_rank(ranks: Sequence[RankTimes], rank: int, name: str) -> str:
    return name if len(ranks) == 1 else f"rank {rank}, {name}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
