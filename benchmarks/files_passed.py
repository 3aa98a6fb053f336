"""The modules that a run passes, for people who read along: `python -m benchmarks.files_passed`.

A module counts if one of its functions is called, imports aside. The fewer there are, the sooner one has read them all:
from `read_csv` to the first batch; to the first batch after a resume on other ranks; to a row in quarantine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import feedpipe as fp

_PACKAGE = str(Path(fp.__file__).parent)


def passed(run: Callable[[], object]) -> list[str]:
    """Name the modules of the package whose functions `run` calls, in this thread."""
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_code.co_name != "<module>":
            seen.setdefault(frame.f_code.co_filename[len(_PACKAGE) + 1 :])

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return sorted(seen)


def runs(folder: Path) -> Mapping[str, Callable[[], object]]:
    """The runs, over a file in `folder`. What they need from before is made here."""
    path = folder / "rows.csv"
    path.write_text("x,y\n" + "".join(f"{k},{k / 2}\n" for k in range(1000)) + "bad,1\n")

    def batches(**options: Any) -> fp.Loader[Any]:
        return fp.Loader(fp.read_csv(path, on_error="skip").batch(8), even=None, **options)

    before = [batches(rank=rank, world_size=2) for rank in range(2)]
    for loader in before:
        next(iter(loader))
    states = [loader.state_dict() for loader in before]
    bad = fp.read_csv(path, schema={"x": "int64"}, on_error=fp.Quarantine(folder / "bad"))

    def resume() -> object:
        loader = batches(rank=0, world_size=3)
        loader.load_state_dict(states)
        return next(iter(loader))

    return {
        "from read_csv to the first batch": lambda: next(iter(fp.Loader(fp.read_csv(path).batch(8)))),
        "from other ranks to the first batch": resume,
        "to a row in quarantine": lambda: list(bad),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name, run in runs(Path(folder)).items():
            modules = passed(run)
            print(f"{name}: {len(modules)} modules\n  {' '.join(modules)}")
