"""Connections of ADBC share a database as long as one of them is open."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from ..support.databases import AdbcDatabases


class Driver:
    """Databases and connections that note when they are opened and closed."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def open(self, name: str) -> Handle:
        return Handle(name, self.events)

    def connect(self, databases: AdbcDatabases) -> Callable[[], None]:
        _, close = databases.connect("a", self.open, lambda database: self.open(f"{database.name} connection"))
        return close


class Handle:
    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self._events = events
        events.append(f"open {name}")

    def close(self) -> None:
        self._events.append(f"close {self.name}")


def test_a_database_is_open_as_long_as_it_has_connections() -> None:
    driver, databases = Driver(), AdbcDatabases()
    first, second = driver.connect(databases), driver.connect(databases)
    first()
    second()
    driver.connect(databases)
    assert driver.events == [
        *("open a", "open a connection", "open a connection"),
        *("close a connection", "close a connection", "close a"),
        *("open a", "open a connection"),
    ]


def test_a_database_without_connections_is_closed() -> None:
    driver, databases = Driver(), AdbcDatabases()

    def refuse(_: Any) -> Any:
        raise OSError("too many connections")

    with pytest.raises(OSError, match="too many"):
        databases.connect("a", driver.open, refuse)
    assert driver.events == ["open a", "close a"]
    driver.connect(databases)
    with pytest.raises(OSError, match="too many"):
        databases.connect("a", driver.open, refuse)
    assert driver.events == ["open a", "close a", "open a", "open a connection"]


def test_nobody_waits_for_a_connection_that_takes_long() -> None:
    """A server that does not answer holds up no connection to another one."""
    driver, databases = Driver(), AdbcDatabases()
    close: list[Callable[[], None]] = []

    def slow(database: Handle) -> str:
        with patch("feedpipe.databases.adbc.PATIENCE", 0):
            close.append(driver.connect(databases))
        return "connection"

    databases.connect("a", driver.open, slow)
    close.pop()()
    assert driver.events == ["open a", "open a", "open a connection", "close a connection", "close a"]


def test_another_process_opens_its_own() -> None:
    driver, databases = Driver(), AdbcDatabases()
    driver.connect(databases)
    driver.connect(pickle.loads(pickle.dumps(databases)))
    assert driver.events.count("open a") == 2
