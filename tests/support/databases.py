"""What tests take from `feedpipe.databases`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.databases.database import Database as Database
from feedpipe.databases.dbapi import DbApiConnection as DbApiConnection
