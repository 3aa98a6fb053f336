"""The command line: `python -m benchmarks overhead`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from . import harness, workloads
from .environments import Environment, environment, own_folder
from .machine import machine
from .model import Contestant, Workload
from .results import as_json, report


def main(arguments: Sequence[str] | None = None) -> int:
    """0, or 1 if a contestant failed, or (with `--strict`) if a target was missed."""
    options = _parser().parse_args(arguments)
    worst = 0
    for name in options.work:
        workload = workloads.workload(name)
        unknown = set(options.only) - {each.name for each in workload.contestants}
        if unknown:
            known = ", ".join(repr(each.name) for each in workload.contestants)
            sys.exit(f"no contestant {sorted(unknown)[0]!r} in {name}; there are {known}")
        if options.profile:
            _profile(workload, options)
        else:
            worst = max(worst, _run(workload, options))
    return worst


def _run(workload: Workload, options: argparse.Namespace) -> int:
    before = machine()
    with ExitStack() as stack:
        results, environments = harness.run(
            workload,
            stack,
            rounds=options.rounds or (1 if options.quick else workload.rounds),
            only=options.only,
            quick=options.quick,
            rebuild=options.rebuild,
            say=_say,
        )
    verdicts = workload.judge(results)
    text = report(results, verdicts, before)
    print(text)
    path = options.json or _default_path(workload)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = as_json(results, verdicts, before, environments)
    path.write_text(json.dumps(data, indent=2) + "\n")
    _say(f"written to {path}")
    if options.markdown:
        options.markdown.write_text(text)
    missed = options.strict and not all(each.reached for each in verdicts)
    return 1 if results.failures or missed else 0


def _profile(workload: Workload, options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        arguments = harness.shared_arguments(workload, options.quick, stack)
        for each in workload.contestants:
            if each.name in options.only or (not options.only and each.ours):
                print(f"## {each.name}", file=sys.stderr, flush=True)
                harness.measure(each, _place(each), arguments, profile=options.profile)


def _place(contestant: Contestant) -> Environment:
    return environment(contestant.environment, say=_say)


def _default_path(workload: Workload) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return own_folder() / "results" / f"{workload.name}-{stamp}.json"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Runs ours and the peers side by side, each peer in its own environment, in "
        "interleaved rounds; prints medians and ratios and writes JSON.",
    )
    parser.add_argument("work", nargs="+", choices=workloads.names(), help="the workloads to run", metavar="WORK")
    parser.add_argument("--rounds", type=_positive, help="number of rounds, in place of the workload's own")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this contestant (repeatable)")
    parser.add_argument("--quick", action="store_true", help="small and one round: a trial run")
    parser.add_argument("--rebuild", action="store_true", help="make the environments anew")
    parser.add_argument("--strict", action="store_true", help="fail if a target is missed")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where the JSON goes")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the report there too")
    parser.add_argument(
        "--profile",
        nargs="?",
        const="tottime",
        metavar="ORDER",
        help="no rounds: one measurement of ours (or of --only) under cProfile, sorted by ORDER",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be >= 1 but got: {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
