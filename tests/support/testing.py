"""What tests take from `feedpipe.testing`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.testing.runs import Case as Case
from feedpipe.testing.runs import Sample as Sample
from feedpipe.testing.runs import agree_errors as agree_errors
from feedpipe.testing.runs import drawn as drawn
from feedpipe.testing.runs import few as few
from feedpipe.testing.runs import most as most
from feedpipe.testing.runs import odd as odd
from feedpipe.testing.runs import picky as picky
from feedpipe.testing.runs import samples as samples
from feedpipe.testing.services import PARTS as PARTS
from feedpipe.testing.services import _check_failure as _check_failure
from feedpipe.testing.services import _check_sample as _check_sample
from feedpipe.testing.services import check_part as check_part
from feedpipe.testing.services import nothing_left as nothing_left
