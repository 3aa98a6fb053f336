"""`python -m tests.soak [PART ...]`: each part prints its result, and if it failed, the command that repeats it.

The parts: random chains with resumes, damaged states, plans of up to 1,024 ranks, resumes on other numbers of ranks and
by pipes that have changed, rows that fail and caches that are cut off, mutants of the code that divides rows, killed
workers, kills and signals to every process of a job, Ctrl-C at random moments, loops that something holds back and what
their reports say, exponents of costs, ranks
that end with connections to PostgreSQL, killed actors and nodes of Ray, and the conformance of services in actors, in
the environment of `make test-clients`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time

PARTS = {
    # Eight laws, 30 to 60 chains each; the ninth runs in worker processes, on 10 chains.
    "chains": (34, ["pytest", "-q", "tests/test_chains.py", "--hypothesis-seed={seed}"]),
    "states": (1, ["tests.soak.state_mutations", "2000", "{seed}"]),
    "ranks": (10, ["pytest", "-q", "tests/plan/test_many_ranks.py"]),
    "resumes": (
        10,
        [
            *("pytest", "-q", "tests/loading/test_elastic.py", "tests/loading/test_even_after_redivision.py"),
            *("tests/loading/test_agreement.py", "--hypothesis-seed={seed}"),
        ],
    ),
    "edits": (
        100,
        [
            "pytest",
            "-q",
            "tests/loading/test_edits.py",
            "-k",
            "each_row or workers or real_ranks",
            "--hypothesis-seed={seed}",
        ],
    ),
    "failures": (
        50,
        [
            *("pytest", "-q", "tests/ops/rows/test_on_error.py", "tests/sources/test_broken_images.py"),
            *("tests/loading/test_elastic.py", "tests/ops/placement/test_cache_faults.py", "--hypothesis-seed={seed}"),
            *("-k", "failures_that_pass or broken_images or rows_that_fail or killed_while_it_writes"),
        ],
    ),
    "mutants": (1, ["tests.soak.mutants"]),
    "kills": (20, ["pytest", "-q", "tests/services/processes/test_kills.py", "-k", "each_epoch or signals"]),
    "jobs": (1, ["tests.soak.jobs", "300", "{seed}"]),
    "interrupts": (1, ["tests.soak.interrupts", "60", "{seed}"]),
    "seeing": (2, ["pytest", "-q", "tests/seeing"]),
    "exponents": (1, ["benchmarks", "scaling", "--strict"]),
    "exits": (20, [".ci/test_databases", "-q", "tests/databases/test_exits.py"]),
    "ray": (
        20,
        [".ci/test_clients", "-q", "tests/clients/test_ray.py", "-k", "killed or conformance or bottleneck or edits"],
    ),
}


def main() -> int:
    """Run the parts; 1 if one has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the random chains and states")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(unknown)}")
    return max([run(part, options.seed) for part in options.parts or PARTS])


def run(part: str, seed: int) -> int:
    times, words = PARTS[part]
    words = [word.format(seed=seed) for word in words]
    command = words if words[0].startswith(".ci/") else [sys.executable, "-m", *words]
    start = time.monotonic()
    chosen = {"SOAK": str(times), "FEEDPIPE_EXAMPLES": "random"}
    status = subprocess.run(command, env={**os.environ, **chosen}, check=False)
    seconds = time.monotonic() - start
    repeat = f"{' '.join(f'{name}={value}' for name, value in chosen.items())} {' '.join(command)}"
    result = "passed" if status.returncode == 0 else f"FAILED; again: {repeat}"
    print(f"soak {part}: {times} times the usual, seed {seed}, {seconds:.0f} s: {result}", flush=True)
    return int(status.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
