"""What tests take from `feedpipe.loading`; a module that moves changes this file alone."""

from __future__ import annotations

from collections.abc import Sequence

from feedpipe.loading.history import KEPT_STEPS as KEPT_STEPS
from feedpipe.loading.job_state import joined as joined
from feedpipe.loading.job_state import part_of as part_of
from feedpipe.loading.job_state import read_states as read_states
from feedpipe.loading.ledger import Ledger as Ledger
from feedpipe.loading.ranks import Job as Job
from feedpipe.loading.schedule import MAX_DROPPED as MAX_DROPPED
from feedpipe.loading.schedule import PADDING as PADDING
from feedpipe.loading.schedule import AgreedItems as AgreedItems
from feedpipe.loading.state import Progress as Progress
from feedpipe.loading.state import Signature as Signature
from feedpipe.loading.state import State as State
from feedpipe.loading.state import resumed_shards as resumed_shards
from feedpipe.loading.state import save as save
from feedpipe.loading.state import validated as validated


def gathered(states: Sequence[State]) -> State:
    """What `gather_state` makes of the states of all ranks, given in their order."""
    read_states(states)
    if len(states) == 1:
        return states[0]
    return joined(states[0], [part_of(state) for state in states], lambda one: one.numbers)
