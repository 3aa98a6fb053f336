"""`python -m tests.readers.hostile mutants KIND SEED COUNT` reads files that chance has changed, in this process.

`python -m tests.readers.hostile bomb KIND` reads a file that malice has made.

Before each file it prints a line, and after it another: what came, the CPU seconds, and the memory at its highest. A
process that dies names its file by the line before.
"""

from __future__ import annotations

import faulthandler
import json
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import feedpipe as fp

from .bombs import BOMBS
from .cases import CASES

HANG_SECONDS = 600.0
_NUMBERS = [
    b"\0" * 8,
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\xff" * 7 + b"\x7f",
    b"\x80" + b"\0" * 7,
    b"\0\0\0\x80" * 2,
]
_TEXTS = [b'"', b"[" * 50_000, b'{"a":' * 50_000, b"\0", b"\xef\xbb\xbf", b"\xff", b"1e999", b"-", b",", b"\r", b"NaN"]


def mutated(data: bytes, draws: random.Random) -> bytes:
    """The bytes with one to three changes: bits, numbers, pieces that are cut, moved or doubled, text that nests."""
    content = bytearray(data)
    for _ in range(draws.choice([1, 1, 2, 3])):
        near = draws.random() < 0.6  # heads and footers hold what a reader believes
        size = len(content)
        edge = min(size, 300)
        at = draws.randrange(edge + 1) if near else draws.randrange(size + 1)
        at = size - at if near and draws.random() < 0.5 else at
        width = draws.choice([1, 2, 4, 8])
        match draws.randrange(7):
            case 0 if at < size:
                content[at] ^= 1 << draws.randrange(8)
            case 1:
                content[at : at + width] = draws.choice(_NUMBERS)[:width]
            case 2:
                del content[at:]
            case 3:
                del content[at : at + draws.randrange(1, 100)]
            case 4:
                content[at:at] = content[max(0, at - draws.randrange(1, 400)) : at]
            case 5:
                content[at:at] = draws.choice(_TEXTS)
            case _:
                content[at : at + width] = draws.randbytes(width)
    return bytes(content)


def peak() -> int:
    """The memory of this process at its highest since `forget_peak`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def outcome(rows: Callable[[], Iterable[Any]], file: str) -> str:
    """What comes of reading: rows, or the error of the user, which names the file; others begin with `RAW`."""
    count = 0
    try:
        for _ in rows():
            count += 1
    except fp.FeedpipeError as error:
        unnamed = "" if file in str(error) else "RAW, without the file: "
        return f"{unnamed}{count} rows, {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    except BaseException as error:
        trace = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(trace[-6:]))
        return f"RAW {type(error).__name__}: {' '.join(str(error).split())[:200]} at {where}"
    return f"{count} rows"


def read(name: str, rows: Callable[[], Iterable[Any]], file: str = "") -> None:
    sys.stdout.write(f"begin {name}\n")
    sys.stdout.flush()
    forget_peak()
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    start = time.process_time()
    result = outcome(rows, file)
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.write(json.dumps([name, result, time.process_time() - start, peak()]) + "\n")


def read_mutants(kind: str, numbers: range, folder: Path) -> None:
    case = CASES[kind]
    files = case.files()
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    for number in numbers:
        draws = random.Random(number)
        path = draws.choice([case.last, case.last, *files])
        (folder / path).write_bytes(mutated(files[path], draws))
        # Errors may name the index of a file, and the folder of a table.
        named = folder.name if kind == "delta" else f"{Path(path).stem.partition('.')[0]}."
        read(f"{number} {path}", lambda: case.read(str(folder)), named)
        (folder / path).write_bytes(files[path])


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        match sys.argv[1:]:
            case ["bomb", kind]:
                read(kind, BOMBS[kind](Path(folder)))
            case ["mutants", kind, seed, count]:
                read_mutants(kind, range(int(seed), int(seed) + int(count)), Path(folder))
            case arguments:
                sys.exit(f"{arguments} are not the arguments of this command:\n\n{__doc__}")


if __name__ == "__main__":
    main()
