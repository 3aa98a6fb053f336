"""Rows of a real PostgreSQL to batches of tensors. "here" needs the drivers of `feedpipe[sql]`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.servers.postgres import Postgres, postgres_programs

from ..contestants.sql_tasks import TABLE
from ..model import Column, Contestant, Results, Verdict, Workload

ROWS = 2_000_000
OURS = "feedpipe, 2 threads"
LIMITS = ("the ADBC driver alone", "COPY by hand")

CONTESTANTS = (
    Contestant(OURS, "sql_feedpipe:measure", arguments={"service": "threads"}, ours=True),
    Contestant("feedpipe, 2 processes", "sql_feedpipe:measure", arguments={"service": "workers"}, ours=True),
    Contestant("feedpipe, in this process", "sql_feedpipe:measure", arguments={"service": "process"}, ours=True),
    Contestant("connectorx, 2 connections", "sql_connectorx:measure", "sql", {"connections": 2}),
    Contestant("connectorx", "sql_connectorx:measure", "sql", {"connections": 1}),
    Contestant("the ADBC driver alone, 2 connections", "sql_driver:measure", arguments={"connections": 2}),
    Contestant("the ADBC driver alone", "sql_driver:measure", arguments={"connections": 1}),
    Contestant("COPY by hand, 2 connections", "sql_copy:measure", "sql", {"connections": 2}),
    Contestant("COPY by hand", "sql_copy:measure", "sql", {"connections": 1}),
    Contestant("psycopg, server cursor", "sql_rows:measure", "sql", {"library": "psycopg"}),
    Contestant("pandas.read_sql_query, chunks", "sql_rows:measure", "sql", {"library": "pandas"}),
)


def _prepare(folder: Path, stack: ExitStack) -> Mapping[str, Any]:
    server = Postgres.start(folder / "server.log")
    stack.callback(server.process.close)
    programs = postgres_programs()
    assert programs is not None, "the server has started"
    statements = [TABLE.format(ROWS), "ALTER TABLE points ADD PRIMARY KEY (id)", "VACUUM ANALYZE points"]
    options = [part for statement in statements for part in ("-c", statement)]
    subprocess.run([programs / "psql", "-q", "-d", server.uri, *options], check=True, env={**os.environ})
    return {"uri": server.uri}


def _check(described: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    rows = arguments["rows"]
    if (described["rows"], described["ids"], described["torn"]) != (rows, rows * (rows - 1) // 2, 0):
        return f"{described['rows']} rows, of which {described['torn']} are torn apart"
    return None


def _judge(results: Results) -> list[Verdict]:
    if not results.have(OURS):
        return []
    return [
        Verdict.at_least(1.0, f"ahead of {peer.contestant.name}", results.round_ratios(peer.contestant.name, OURS))
        for peer in results.peers
        if not peer.contestant.name.startswith(LIMITS)
    ]


WORKLOAD = Workload(
    name="sql",
    title="2,000,000 rows of 8 columns from PostgreSQL, with the start of connections and workers",
    contestants=CONTESTANTS,
    columns=(
        Column("rows a second", lambda each: f"{1 / each.median():,.0f}"),
        Column("of ours", lambda each: f"{1 / each.ratio:.2f}" if each.ratios else "-"),
        Column.median("MB at the peak of a process", "peak"),
    ),
    judge=_judge,
    baseline=OURS,
    metric="seconds_each",
    rounds=3,
    arguments={"rows": ROWS},
    quick={"rows": 200_000},
    check=_check,
    prepare=_prepare,
)
