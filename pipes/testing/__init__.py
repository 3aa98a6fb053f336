"""A check of the contract of operators, for their authors. Only tests import this."""

from .operators import Trace as Trace
from .operators import check_operator as check_operator
from .operators import random_blocks as random_blocks
from .operators import same as same
from .operators import trace as trace
