"""Writes to a table of PostgreSQL until it kills itself: `killed_writer.py URI MOMENT`."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import feedpipe as fp
from feedpipe.databases.adbc import AdbcConnection

COUNT = 5_000


def row(number: int) -> dict[str, Any]:
    return {"id": number, "x": number / 2}


def kill_at(moment: int) -> None:
    """Kills this process after some of the steps of transactions: begin, insert and commit."""
    moments = itertools.count(1)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            result = function(*arguments)
            if next(moments) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return run

    for name in ("begin_writing", "insert", "commit_writing"):
        setattr(AdbcConnection, name, counted(getattr(AdbcConnection, name)))


if __name__ == "__main__":
    kill_at(int(sys.argv[2]))
    fp.write_sql(fp.from_sequence(range(COUNT)).map(row), "killed", sys.argv[1], rows_per_transaction=2_000)
