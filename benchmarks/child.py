"""What runs in the fresh process of one measurement, in the environment of its contestant.

    python child.py '{"target": "module:function", "arguments": {...}, "profile": null}'

It prints one line of JSON, the last line of its output. Only the standard library is imported here,
and of the benchmarks only the contestant itself: in a peer's environment there is no feedpipe.
"""

from __future__ import annotations

import sys


def main() -> None:
    import importlib
    import json
    from pathlib import Path

    task = json.loads(sys.argv[1])
    # The checkout comes last, so that nothing in it hides an installed package, and this file's
    # folder is not on the path at all.
    sys.path[0:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    module, function = task["target"].split(":")
    call = getattr(importlib.import_module(f"benchmarks.contestants.{module}"), function)
    if task.get("profile"):
        import cProfile
        import pstats

        profiler = cProfile.Profile()
        figures = profiler.runcall(call, **task["arguments"])
        pstats.Stats(profiler, stream=sys.stderr).sort_stats(task["profile"]).print_stats(30)
    else:
        figures = call(**task["arguments"])
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
