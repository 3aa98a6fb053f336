"""The rules of `check`, by what they look at; docs/guides/check.md has a line for each."""

from __future__ import annotations

from .checked_pipe import Rule
from .functions import early_draws, global_state, large_captures, unkeyed_draws, unpicklable
from .machine import large_elements, large_windows, open_files, workers_over_cpus
from .plan import no_length, other_rows, read_again, uneven_ranks, weights_of_epochs
from .rows import decode_before_shuffle, failing_row, filter_late, row_map_vectorisable, sorted_classes

RULES: tuple[Rule, ...] = (
    failing_row,
    uneven_ranks,
    unpicklable,
    no_length,
    read_again,
    other_rows,
    weights_of_epochs,
    unkeyed_draws,
    early_draws,
    global_state,
    large_captures,
    large_windows,
    large_elements,
    open_files,
    workers_over_cpus,
    sorted_classes,
    decode_before_shuffle,
    filter_late,
    row_map_vectorisable,
)
