"""What tests take from `feedpipe.operators`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.ops import _cached_rows as _cached_rows
from feedpipe.ops._keys import digest_of as digest_of
from feedpipe.ops._methods import MEANT as MEANT
from feedpipe.ops._methods import OperatorMethods as OperatorMethods
from feedpipe.ops._shared import PassThrough as PassThrough
from feedpipe.ops._turns import WeightedTurns as WeightedTurns
from feedpipe.ops._turns import rounded_weights as rounded_weights
from feedpipe.ops._turns import whole_weights as whole_weights
from feedpipe.ops.mix import MixtureLayout as MixtureLayout
