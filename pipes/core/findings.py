"""`Finding`: something about a pipe that costs its user, with the code that repairs it."""

from __future__ import annotations

import re
import warnings
from typing import Literal, NamedTuple, TypeAlias

from ..errors import CallSite, PlanWarning, call_site, shown

Severity: TypeAlias = Literal["error", "warning"]
"""What happens if nothing is repaired:

    error    the pipe, or a loader with these arguments, fails
    warning  other rows come than are meant, or the cost is far higher than it need be
"""


class Finding(NamedTuple):
    """Something about a pipe that costs its user.

    Attributes:
        rule: the name of the rule, such as `unkeyed-draws`.
        severity: "error" or "warning".
        where: the line of the user's code that it is about; None if it is about the whole pipe.
        text: what it is, what it costs, and what to do.
        repair: that as code. If it begins with a dot, it replaces the call at `where`, or follows it if that begins
            the pipe. Otherwise `pipe` in it is the whole pipe, and `source` the pipe up to the call at `where`.
    """

    rule: str
    severity: Severity
    where: CallSite | None
    text: str
    repair: str

    def __str__(self) -> str:
        where = "" if self.where is None else f"{self.where}: "
        repair = self.repair.replace("\n", "\n      ")
        text = with_short_code(self.text)
        return shown(f"{where}{self.severity}: {self.rule}\n  {text}\n  repair:\n      {repair}")

    def warn(self) -> None:
        """Warn of it at the user's line."""
        where = self.where or call_site()
        if where is None:
            warnings.warn(FoundWarning(self), stacklevel=2)
        else:
            warnings.warn_explicit(FoundWarning(self), None, where.file, where.line)


def with_short_code(text: str) -> str:
    """The text; what is between backticks and too long to read is cut."""
    return re.sub(r"`([^`]{60})[^`]{20,}`", r"`\1...`", text)


class FoundWarning(PlanWarning):
    """A warning of a finding.

    Attributes:
        finding: what was found.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(shown(finding.text))
        self.finding = finding

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.finding,)
