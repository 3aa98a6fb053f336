"""What a benchmark is made of: plain values, imported by every other module here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The environment that runs this benchmark itself: the one in which feedpipe is installed.
HERE = "here"


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    `target` is `module:function` inside `benchmarks.contestants`. The function is called with
    `arguments` in a fresh process of `environment` and returns a flat dict of numbers and strings,
    the *figures* of one measurement.
    """

    name: str
    target: str
    environment: str = HERE
    arguments: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False


@dataclass(frozen=True)
class Column:
    """A column of the table: a title, and a text made of one contestant's summary."""

    title: str
    text: Callable[[Summary], str]

    @staticmethod
    def median(title: str, figure: str, digits: int = 0) -> Column:
        return Column(title, lambda each: f"{each.median(figure):.{digits}f}")


@dataclass(frozen=True)
class Verdict:
    """Whether one target was reached."""

    target: str
    measured: str
    reached: bool

    @staticmethod
    def at_least(limit: float, target: str, numbers: Sequence[float], digits: int = 2) -> Verdict:
        """Whether the median of the rounds' `numbers` is at or above the limit."""
        return Verdict(target, _spread(numbers, lambda each: each >= limit, digits), median(numbers) >= limit)

    @staticmethod
    def at_most(limit: float, target: str, numbers: Sequence[float], digits: int = 2) -> Verdict:
        """Whether the median of the rounds' `numbers` is at or below the limit."""
        return Verdict(target, _spread(numbers, lambda each: each <= limit, digits), median(numbers) <= limit)


@dataclass(frozen=True)
class Failure:
    """A contestant that could not be measured, or whose result was wrong."""

    contestant: str
    reason: str


@dataclass(frozen=True)
class Workload:
    """What is measured, by whom, and what is asked of the result.

    `metric` names the figure that ratios are made of, in the direction "less is better".
    `arguments` go to every contestant; `quick` replaces some of them for a trial run. `prepare`,
    if given, makes input files in a folder that is kept between runs, and starts servers, which the
    stack ends; what it returns is added to the arguments. `check`, if given, gets what the
    function `check` beside each contestant's target returned, and says what is wrong with it, or
    nothing.
    """

    name: str
    title: str
    contestants: Sequence[Contestant]
    columns: Sequence[Column]
    judge: Callable[[Results], Sequence[Verdict]]
    baseline: str
    metric: str = "seconds"
    rounds: int = 7
    arguments: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any], Mapping[str, Any]], str | None] | None = None
    prepare: Callable[[Path, ExitStack], Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Summary:
    """All measurements of one contestant.

    `figures[i]` are the figures of round i; `ratios[i]` is its metric over the baseline's in the same
    round, so that a slow moment of the machine touches both; empty if the baseline is missing.
    `checked` is what its check found, once, before the rounds.
    """

    contestant: Contestant
    metric: str
    figures: Sequence[Mapping[str, Any]]
    ratios: Sequence[float]
    checked: Mapping[str, Any] = field(default_factory=dict)

    def median(self, figure: str | None = None) -> float:
        return median([float(each[figure or self.metric]) for each in self.figures])

    def last(self, figure: str) -> Any:
        return self.figures[-1][figure]

    @property
    def ratio(self) -> float:
        return median(self.ratios)


@dataclass(frozen=True)
class Results:
    """Everything a run found out. A contestant that failed is in `failures` only."""

    workload: Workload
    rounds: int
    arguments: Mapping[str, Any]
    summaries: Mapping[str, Summary]
    failures: Sequence[Failure]

    def ratio(self, name: str, to: str) -> float:
        """The median over the rounds of `name`'s metric over `to`'s."""
        return median(self.round_ratios(name, to))

    def round_ratios(self, name: str, to: str, metric: str | None = None) -> list[float]:
        """`name`'s metric over `to`'s, round by round."""
        metric = metric or self.workload.metric
        pairs = zip(self.summaries[name].figures, self.summaries[to].figures, strict=True)
        return [one[metric] / other[metric] for one, other in pairs]

    def have(self, *names: str) -> bool:
        return all(name in self.summaries for name in names)

    @property
    def peers(self) -> list[Summary]:
        return [each for each in self.summaries.values() if not each.contestant.ours]


def _spread(numbers: Sequence[float], reached: Callable[[float], bool], digits: int) -> str:
    """The median with its range, and in how many rounds the target was reached: a near miss shows."""
    successes = sum(map(reached, numbers))
    low, high = min(numbers), max(numbers)
    return f"{median(numbers):.{digits}f} ({low:.{digits}f} to {high:.{digits}f}; {successes} of {len(numbers)} rounds)"


def median(numbers: Sequence[float]) -> float:
    if not numbers:
        return float("nan")
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def limits_workload(
    name: str,
    title: str,
    limits: Mapping[str, tuple[str, float | None]],
    column: str,
    check: Callable[[Mapping[str, Any], Mapping[str, Any]], str | None],
) -> Workload:
    """A workload of ways of feedpipe, each with a limit of CPU time of its own.

    `limits` has, by the name of a row, the way and the most microseconds that each may take; the first row is the
    baseline, which has no limit.
    """

    def judge(results: Results) -> list[Verdict]:
        verdicts = []
        for row, (_, limit) in limits.items():
            if limit is not None and results.have(row):
                each = [figures["seconds_each"] * 1e6 for figures in results.summaries[row].figures]
                verdicts.append(Verdict.at_most(limit, f"{row}: at most {limit:g} us", each))
        return verdicts

    return Workload(
        name=name,
        title=title,
        contestants=[
            Contestant(row, f"{name}_feedpipe:measure", arguments={"way": way}, ours=True)
            for row, (way, _) in limits.items()
        ],
        columns=(Column(column, lambda each: f"{each.median() * 1e6:.2f}"),),
        judge=judge,
        baseline=next(iter(limits)),
        metric="seconds_each",
        rounds=5,
        arguments={"count": 200_000},
        quick={"count": 20_000},
        check=check,
    )
