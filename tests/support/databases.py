"""What tests take from `feedpipe.databases`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.databases.adbc import AdbcDatabases as AdbcDatabases
from feedpipe.databases.database import Database as Database
from feedpipe.databases.database import LostConnectionError as LostConnectionError
from feedpipe.databases.dbapi import DbApiConnection as DbApiConnection
from feedpipe.databases.duckdb import DuckDBConnection as DuckDBConnection
