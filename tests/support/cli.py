"""What tests take from `feedpipe.cli`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.cli.main import FAMILIES as FAMILIES
from feedpipe.cli.main import CommandError as CommandError
from feedpipe.cli.main import describe_function as describe_function
from feedpipe.cli.main import families as families
from feedpipe.cli.main import list_functions as list_functions
from feedpipe.cli.main import main as main
