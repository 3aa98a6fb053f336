"""Benchmarks of feedpipe beside its peers: `python -m benchmarks overhead`.

How it is laid out:

    __main__.py       the command line
    model.py          Workload, Contestant, Verdict: what a benchmark is made of
    environments.py   one virtual environment per peer, with pins, built once and cached
    harness.py        runs: check every contestant once, then measure in interleaved rounds
    child.py          what runs in the fresh process of one measurement, in any environment
    results.py        medians, paired ratios, the table in Markdown, the JSON file
    machine.py        what the numbers were taken on: versions, processor, commit
    workloads/        one file a workload: who takes part, what is shown, which targets hold
    contestants/      the code that is measured, one file a contestant; it may import its own
                      peer and nothing else of this package but the modules of tasks beside it

A new workload is one file in `workloads/` that defines `WORKLOAD`, and its contestants.
"""
