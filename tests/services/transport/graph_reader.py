"""Another interpreter, which reads a graph file and prints what a test asks for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import feedpipe as fp

from ...support.services import write_graph_file

READ = """
import sys
sys.path[:] = {path!r}
from feedpipe.services.transport.graph_file import read_graph_file
content, classes = read_graph_file({fd})
"""


def other_process(content: Any, code: str, root: Any = None) -> str:
    """What `code` prints in another process that has read `content` from a graph file."""
    fd = write_graph_file(content, root or fp.from_sequence([0]))
    try:
        return in_child(fd, code)
    finally:
        os.close(fd)


def in_child(fd: int, code: str) -> str:
    code = READ.format(path=sys.path, fd=fd) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], pass_fds=[fd], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
