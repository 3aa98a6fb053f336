"""What tests take from `runs` and `check_service`."""

from __future__ import annotations

from .check_service import PARTS as PARTS
from .check_service import _check_failure as _check_failure
from .check_service import _check_sample as _check_sample
from .check_service import check_part as check_part
from .check_service import nothing_left as nothing_left
from .runs import Case as Case
from .runs import Sample as Sample
from .runs import drawn as drawn
from .runs import few as few
from .runs import most as most
from .runs import odd as odd
from .runs import picky as picky
