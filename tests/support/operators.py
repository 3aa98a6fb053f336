"""What tests take from `feedpipe.operators`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.ops import _cached_rows as _cached_rows
from feedpipe.ops import cache as cache
from feedpipe.ops._keys import digest_of as digest_of
from feedpipe.ops._keys import digests_of_column as digests_of_column
from feedpipe.ops._keys import digests_of_records as digests_of_records
from feedpipe.ops._keys import digests_of_values as digests_of_values
from feedpipe.ops._keys import long_checksum as long_checksum
from feedpipe.ops._methods import MEANT as MEANT
from feedpipe.ops._methods import OperatorMethods as OperatorMethods
from feedpipe.ops._row_set import RowSet as RowSet
from feedpipe.ops._schedule import RowNumbers as RowNumbers
from feedpipe.ops._schedule import WeightSchedule as WeightSchedule
from feedpipe.ops._shared import PassThrough as PassThrough
from feedpipe.ops._turns import EqualTurns as EqualTurns
from feedpipe.ops._turns import WeightedTurns as WeightedTurns
from feedpipe.ops._turns import rounded_weights as rounded_weights
from feedpipe.ops._turns import whole_weights as whole_weights
from feedpipe.ops.mix import MixtureLayout as MixtureLayout
from feedpipe.ops.pack import best_fit as best_fit
from feedpipe.ops.pack import best_fit_columns as best_fit_columns
