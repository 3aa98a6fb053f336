"""What a run found out, as a table that is Markdown, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .environments import PINS, Environment
from .model import Results, Summary, Verdict


def report(results: Results, verdicts: Sequence[Verdict], machine: Mapping[str, Any]) -> str:
    """The whole report, in Markdown."""
    workload = results.workload
    settings = ", ".join(f"{name}={value}" for name, value in results.arguments.items())
    rounds = "1 round" if results.rounds == 1 else f"{results.rounds} interleaved rounds"
    parts = [
        f"## {workload.name}: {workload.title}",
        f"{rounds}, one fresh process per measurement; medians{', with ' if settings else ''}{settings}.",
        _table(
            ["", *(column.title for column in workload.columns)],
            [
                [each.contestant.name, *(column.text(each) for column in workload.columns)]
                for each in results.summaries.values()
            ],
        ),
    ]
    if results.failures:
        parts.append("\n".join(f"* {each.contestant} failed: {each.reason}" for each in results.failures))
    if verdicts:
        parts.append(
            _table(
                ["target", "measured", ""],
                [[each.target, each.measured, _word(each.reached)] for each in verdicts],
            )
        )
    parts.append(
        f"{machine['date']}, {machine['python']}, {machine['cores']} cores of {machine['cpu']}, "
        f"{machine['system']}, load before the run {machine['load'][0]}, "
        f"commit {machine['commit'] or 'none'}"
    )
    return "\n\n".join(parts) + "\n"


def as_json(
    results: Results,
    verdicts: Sequence[Verdict],
    machine: Mapping[str, Any],
    environments: Mapping[str, Environment],
) -> dict[str, Any]:
    """Everything, every single measurement included."""
    return {
        "workload": results.workload.name,
        "title": results.workload.title,
        "metric": results.workload.metric,
        "baseline": results.workload.baseline,
        "rounds": results.rounds,
        "arguments": dict(results.arguments),
        "machine": dict(machine),
        "environments": {
            name: {"pins": list(PINS.get(name, ())), "versions": each.versions} for name, each in environments.items()
        },
        "contestants": {name: _plain(each) for name, each in results.summaries.items()},
        "failures": [dataclasses.asdict(each) for each in results.failures],
        "targets": [dataclasses.asdict(each) for each in verdicts],
    }


def _plain(summary: Summary) -> dict[str, Any]:
    numbers = [
        name
        for name, value in summary.figures[0].items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    return {
        "environment": summary.contestant.environment,
        "ours": summary.contestant.ours,
        "arguments": dict(summary.contestant.arguments),
        "medians": {name: summary.median(name) for name in numbers},
        "ratio": summary.ratio if summary.ratios else None,
        "ratios": list(summary.ratios),
        "checked": dict(summary.checked),
        "figures": [dict(each) for each in summary.figures],
    }


def _word(reached: bool) -> str:
    return "pass" if reached else "FAIL"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns lined up: the first to the left, the others to the right."""
    widths = [max(3, *(len(row[i]) for row in [titles, *rows])) for i in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(titles), line(rule), *(line(row) for row in rows)])
