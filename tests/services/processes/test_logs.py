"""Records of `logging` come to the handlers of the program, whatever process makes the rows."""

from __future__ import annotations

import logging
import os

import pytest

import feedpipe as fp
from feedpipe.errors import WorkerError

log, quiet = logging.getLogger("tests.rows"), logging.getLogger("tests.quiet")


def talkative(row):
    log.debug("debug of %d", row)
    log.info("info of %d", row, extra={"row": row, "other": [row]})
    quiet.info("nobody wants this")
    quiet.warning("%s", ("warned", row))
    try:
        row // 0
    except ZeroDivisionError:
        log.exception("caught at %d", row)
    return row


PIPES = {
    "map": fp.from_sequence(range(6)).map(talkative),
    "threads": fp.from_sequence(range(6)).map(talkative, concurrency=3),
    "dispatch": fp.from_iterable(lambda: iter(range(6))).map(talkative).dispatch(),
    "remote": fp.from_sequence(range(6)).map(talkative).remote(),
}


class Kept(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.format(record)
        extras = getattr(record, "row", None), str(getattr(record, "other", None))
        trace = (record.exc_text or "").splitlines()[-1:]
        self.seen.append((record.name, record.levelno, record.getMessage(), record.funcName, *extras, trace))


@pytest.mark.parametrize("name", PIPES)
def test_records_are_those_without_workers(name, monkeypatch):
    kept = Kept()
    monkeypatch.setattr(log, "handlers", [kept])
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(logging.root, "handlers", [kept])
    log.setLevel(logging.INFO)
    quiet.setLevel(logging.WARNING)
    seen = []
    for service in (fp.InProcess(), fp.MultiProcess(2)):
        with fp.Loader(PIPES[name], service) as loader:
            assert sorted(loader) == list(range(6))
        seen.append(sorted(entry for entry in kept.seen if entry[0].startswith("tests.")))
        kept.seen.clear()
    assert len(seen[0]) == 18
    assert seen[0] == seen[1]


def test_a_record_before_a_death_is_not_lost(caplog, deaths):
    def dies(row):
        log.warning("dying")
        os._exit(1)

    loader = fp.Loader(fp.from_sequence([1]).map(dies), workers=1)
    with deaths(least=2), loader, pytest.raises(WorkerError):
        list(loader)
    assert caplog.text.count("dying") == 3


def test_many_threads_and_a_garbage_collector_that_log_amid_messages(caplog):
    class Loud:
        def __del__(self):
            log.warning("gone")

    def make(row):
        cycle = [Loud()]
        cycle.append(cycle)
        log.warning("row %d", row)
        return bytes(5000)

    with (
        caplog.at_level(logging.WARNING),
        fp.Loader(fp.from_sequence(range(400)).map(make, concurrency=4), workers=2) as loader,
    ):
        assert sum(1 for _ in loader) == 400
    assert {record.getMessage() for record in caplog.records} >= {f"row {row}" for row in range(400)}
