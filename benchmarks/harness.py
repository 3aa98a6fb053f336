"""Runs a workload: every contestant is checked once, then all are measured in interleaved rounds.

In each round every contestant has one turn, and the round after begins with the next one, so that
a slow minute of the machine or a warm cache favours nobody. Each measurement is a fresh process.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from feedpipe.databases.driver import shown_uri, without_secrets

from .environments import BuildError, Environment, environment, own_folder
from .model import HERE, Contestant, Failure, Results, Summary, Workload

_CHILD = Path(__file__).with_name("child.py")

#: Longer than any measurement; a contestant that hangs is a failure, not a hanging benchmark.
TIMEOUT = 900.0

Say = Callable[[str], None]


class MeasureError(Exception):
    """A measurement ended with an error; the message is the last line the process wrote that is not indented."""


def run(
    workload: Workload,
    stack: ExitStack,
    *,
    rounds: int,
    only: Sequence[str] = (),
    quick: bool = False,
    rebuild: bool = False,
    say: Say = print,
) -> tuple[Results, dict[str, Environment]]:
    """All measurements of `workload`, and the environments they were taken in; its servers end with `stack`."""
    contestants = [each for each in workload.contestants if not only or each.name in only]
    failures: list[Failure] = []
    environments = _environments(contestants, failures, rebuild, say)
    contestants = [each for each in contestants if each.environment in environments]
    arguments = shared_arguments(workload, quick, stack)

    checked: dict[str, Mapping[str, Any]] = {}
    for each in list(contestants):
        say(f"checking {each.name}")
        try:
            checked[each.name] = _checked(workload, each, environments, arguments)
        except MeasureError as error:
            failures.append(Failure(each.name, str(error)))
            contestants.remove(each)

    figures: dict[str, list[Mapping[str, Any]]] = {each.name: [] for each in contestants}
    for number in range(rounds):
        start = number % max(1, len(contestants))
        say(f"round {number + 1} of {rounds}")
        for each in [*contestants[start:], *contestants[:start]]:
            if each.name not in figures:
                continue
            try:
                figures[each.name].append(measure(each, environments[each.environment], arguments))
            except MeasureError as error:
                failures.append(Failure(each.name, str(error)))
                del figures[each.name]

    summaries = {
        each.name: _summary(workload, each, figures, checked[each.name]) for each in contestants if each.name in figures
    }
    return without_passwords(Results(workload, rounds, arguments, summaries, failures)), environments


def without_passwords(results: Results) -> Results:
    """The results as reports show them: URIs without user and password."""
    uris = [value for value in results.arguments.values() if isinstance(value, str) and "://" in value]
    arguments = {name: shown_uri(value) if value in uris else value for name, value in results.arguments.items()}
    failures = list(results.failures)
    for uri in uris:
        failures = [Failure(each.contestant, without_secrets(each.reason, uri)) for each in failures]
    return replace(results, arguments=arguments, failures=failures)


def shared_arguments(workload: Workload, quick: bool, stack: ExitStack) -> dict[str, Any]:
    """What every contestant is called with, apart from its own arguments; while the stack is open."""
    arguments = {**workload.arguments, **(workload.quick if quick else {})}
    if workload.prepare is not None:
        folder = own_folder() / "data" / workload.name
        folder.mkdir(parents=True, exist_ok=True)
        arguments.update(workload.prepare(folder, stack))
    return arguments


def made(folder: Path, target: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Input files, made once in `folder` by a function of a contestant; where they are, as contestants see it."""
    done = folder / "made"
    if not done.exists():
        maker = Contestant("the maker of the files", target)
        found = measure(maker, environment(HERE), {"folder": str(folder), **arguments})
        done.write_text(json.dumps(found) + "\n")
    return {"folder": f"../data/{folder.name}"}  # relative, because reports show it


def measure(
    contestant: Contestant,
    where: Environment,
    arguments: Mapping[str, Any],
    *,
    function: str | None = None,
    profile: str | None = None,
    timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """The figures of one measurement, taken in a fresh process of `where`.

    With `profile` (a sort order of `pstats`) the profile goes to this process's standard error.
    """
    module, measured = contestant.target.split(":")
    task = {
        "target": f"{module}:{function or measured}",
        "arguments": {**arguments, **contestant.arguments},
        "profile": profile,
    }
    folder = own_folder() / "run"  # neither the checkout nor anything else to import by accident
    folder.mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            [str(where.python), str(_CHILD), json.dumps(task)],
            cwd=folder,
            env=_clean(os.environ),
            stdout=subprocess.PIPE,
            stderr=None if profile else subprocess.PIPE,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise MeasureError(f"no result after {timeout:g} s") from None
    if done.returncode:
        # The last lines of a message may be indented: where in the pipe it happened.
        lines = [line for line in (done.stderr or "").splitlines() if line.strip() and not line[0].isspace()]
        raise MeasureError(lines[-1] if lines else f"exit status {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _environments(
    contestants: Sequence[Contestant], failures: list[Failure], rebuild: bool, say: Say
) -> dict[str, Environment]:
    made: dict[str, Environment] = {}
    for name in dict.fromkeys(each.environment for each in contestants):
        try:
            made[name] = environment(name, rebuild=rebuild, say=say)
        except BuildError as error:
            failures.extend(Failure(each.name, str(error)) for each in contestants if each.environment == name)
    return made


def _checked(
    workload: Workload,
    contestant: Contestant,
    environments: Mapping[str, Environment],
    arguments: Mapping[str, Any],
) -> Mapping[str, Any]:
    where = environments[contestant.environment]
    if workload.check is None:
        # One uncounted measurement all the same: it fills the disk's cache and writes bytecode.
        measure(contestant, where, arguments)
        return {}
    found = measure(contestant, where, arguments, function="check")
    wrong = workload.check(found, arguments)
    if wrong is not None:
        raise MeasureError(f"wrong result: {wrong}")
    return found


def _summary(
    workload: Workload,
    contestant: Contestant,
    figures: Mapping[str, Sequence[Mapping[str, Any]]],
    checked: Mapping[str, Any],
) -> Summary:
    metric = workload.metric
    own = figures[contestant.name]
    base = figures.get(workload.baseline, ())
    ratios = [float(one[metric]) / float(other[metric]) for one, other in zip(own, base, strict=False) if other[metric]]
    return Summary(contestant, metric, own, ratios, checked)


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables without those that change what Python imports or writes."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE",
               "PYTHONPROFILEIMPORTTIME", "PYTHONWARNINGS", "VIRTUAL_ENV")  # fmt: skip
    return {name: value for name, value in environ.items() if name not in dropped}
