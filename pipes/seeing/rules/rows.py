"""Rules that look at the first rows: what they hold, how large they are, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, TypeAlias, cast

import numpy as np

from ...core.findings import Finding
from ...core.graph import Node, node_code
from ...core.lazy import pa
from ...core.operator import Order
from ...core.process import bytes_text
from ...engine.stage import Stage
from ...errors import RowError, text_of
from ...formats.expressions import is_expression
from ...plan.findings import windows
from ...plan.function_values import closure, global_names
from .checked_pipe import CheckedPipe, first_rows
from .functions import code_to_run

Values: TypeAlias = dict[str, list[Any]]

PLACES = 8
"""The shards whose first rows are compared."""
LEAST_ROWS = 16
"""The rows of a shard without which nothing is said about their order."""
LABELS = ("label", "labels", "class", "target", "y", "category")
"""Names of columns that are asked first."""
MUCH_LARGER, MANY_BYTES = 4, 2**28
"""What makes rows much larger multiplies their bytes by this; a large window holds as many bytes."""
TIMED_ROWS = 256
SLOW_ROW_SECONDS = 2e-5
MUCH_FASTER = 3
"""Less is no reason to change a program."""


def failing_row(view: CheckedPipe) -> Iterator[Finding]:
    """The first rows raise an error."""
    error = view.sample(view.plan.unsharded).error
    if error is None:
        return
    failing = [stage for stage in view.stages() if view.sample(stage).error is not None]
    if isinstance(error, RowError):
        failing = [stage for stage in view.stages() if node_code(stage.node).lstrip(".") == error.operator.lstrip(".")]
    repair = 'pipe.on_error("skip")'
    if failing and any(field.name == "on_error" for field in fields(cast("Any", failing[0].op))):
        code = code_to_run(failing[0].node)
        repair = f'{code[:-1]}{"" if code.endswith("()") else ", "}on_error="skip")'
    text = f"the first rows fail: {' '.join(text_of(error).split())}"
    yield Finding("failing-row", "error", failing[0].call_site if failing else None, text, repair)


def sorted_classes(view: CheckedPipe) -> Iterator[Finding]:
    """Windows of a shuffle that see one value of a column for long."""
    for window in windows(view.plan):
        stages = view.shard_stages(view.plan.names[window.node], PLACES)
        samples = [_values(view.sample(stage.input, view.rows // PLACES).rows) for stage in stages]
        samples = [sample for sample in samples if sample and len(next(iter(sample.values()))) >= LEAST_ROWS]
        name = _sorted_name(samples) if len(samples) > 1 else None
        if name is None or window.rows > view.rows:
            continue
        rows = sum(len(sample[name]) for sample in samples)
        values = ", ".join(repr(sample[name][0]) for sample in samples[:3])
        text = (
            f"`{node_code(window.node).lstrip('.')}` sees one value of `{name}` for long: {rows} rows from "
            f"{len(samples)} places of the data hardly change (they begin with {values}, ...), so batches are no "
            "mixture; shuffle all rows, which `load()` holds in memory, or write them in another order once"
        )
        yield Finding("sorted-classes", "warning", window.node.call_site, text, ".load().shuffle()")


def _sorted_name(samples: list[Values]) -> str | None:
    """A column that hardly ever changes within the samples, and has several values in all."""
    names = [name for name in samples[0] if all(name in sample for sample in samples)]
    names.sort(key=lambda name: name.lower() not in LABELS)
    for name in names:
        columns = [sample[name] for sample in samples]
        changes = sum(value != after for column in columns for value, after in pairwise(column))
        if changes <= len(columns) // 2 and len({value for column in columns for value in column}) > 1:
            return name
    return None


def _values(rows: list[Any]) -> Values:
    """The numbers and texts of rows by the name of their column, or by their place in a tuple."""
    columns: Values = {}
    for row in rows:
        fields = row.items() if isinstance(row, Mapping) else enumerate(row) if isinstance(row, (tuple, list)) else ()
        for name, value in fields:
            if isinstance(value, (int, str, bool, np.integer)):
                columns.setdefault(str(name), []).append(value)
    return {name: values for name, values in columns.items() if len(values) == len(rows)}


def decode_before_shuffle(view: CheckedPipe) -> Iterator[Finding]:
    """Windows of rows that an operator before the shuffle has made much larger."""
    for window in windows(view.plan):
        stage = view.plan.stage_of(window.node).input
        size = view.row_bytes(stage)
        between: list[Node] = []
        best = stage, size
        while size is not None and _is_one_for_one(stage):
            between.append(stage.node)
            stage = stage.input
            smaller = view.row_bytes(stage)
            if smaller is not None and smaller < cast("float", best[1]):
                best = stage, smaller
        large, small = (size or 0) * window.held, (best[1] or 0) * window.held
        if size is None or large < MANY_BYTES or large < MUCH_LARGER * small:
            continue
        between = between[: next(i for i, node in enumerate(between) if node.inputs[0] is best[0].node) + 1]
        calls = ", ".join(f"`{node_code(node).lstrip('.')}`" for node in reversed(between))
        shuffle = node_code(window.node)
        text = (
            f"`{shuffle.lstrip('.')}` holds {window.held} rows after {calls}, {bytes_text(large)} in all; before, they "
            f"have {bytes_text(small)}; shuffle before the rows become large"
        )
        repair = shuffle + "".join(code_to_run(node) for node in reversed(between))
        yield Finding("decode-before-shuffle", "warning", window.node.call_site, text, repair)


def _is_one_for_one(stage: Stage) -> bool:
    op = stage.op
    return len(stage.inputs) == 1 and stage.one_for_one and op.order is Order.ROW_LOCAL and not op.expands


def filter_late(view: CheckedPipe) -> Iterator[Finding]:
    """Filters behind an operator that works on rows which they drop."""
    for stage in view.stages():
        if stage.op.kind != "filter" or not view.rows:
            continue
        before = stage.input
        passed = _verdicts(stage, view.sample(before, TIMED_ROWS).rows)
        if passed is None or len(passed) < LEAST_ROWS or sum(passed) > len(passed) / 2:
            continue
        call, filter_code = node_code(before.node).lstrip("."), node_code(stage.node).lstrip(".")
        dropped = 1 - sum(passed) / len(passed)
        if before.op.kind == "shuffle" and not before.indexed:
            cost = f"`{call}` holds rows of which `{filter_code}` drops {dropped:.0%}, so its window is as much smaller"
        elif (
            before.op.kind in ("map", "decode")
            and _verdicts(stage, view.sample(before.input, TIMED_ROWS).rows) == passed
        ):
            seconds = _seconds_of(view, before)
            if seconds < SLOW_ROW_SECONDS:
                continue
            cost = (
                f"`{call}` takes {1e3 * seconds:.2g} ms for each row, and `{filter_code}` drops {dropped:.0%} of them "
                "by values that they have before"
            )
        else:
            continue
        repair = code_to_run(stage.node) + code_to_run(before.node)
        yield Finding("filter-late", "hint", stage.call_site, f"{cost}; put the filter first", repair)


def _verdicts(stage: Stage, rows: list[Any]) -> list[bool] | None:
    """Whether a filter keeps each of some rows; None if it cannot be asked."""
    predicate: Any = getattr(stage.op, "function", None) or getattr(stage.op, "expression", None)
    try:
        if not is_expression(predicate):
            return [bool(predicate(row)) for row in rows]
        table = pa.Table.from_pylist(rows).append_column("_", pa.array(range(len(rows))))
        kept = set(table.filter(predicate).column("_").to_pylist())
        return [place in kept for place in range(len(rows))]
    except Exception:  # it needs what the operator before it makes
        return None


def _seconds_of(view: CheckedPipe, stage: Stage) -> float:
    """The seconds that an operator takes for a row, in this process."""
    count = min(view.rows, TIMED_ROWS)
    seconds: list[float] = []
    for timed in (stage, stage.input):
        begin = time.perf_counter()
        rows = first_rows(timed, count).rows
        seconds.append((time.perf_counter() - begin) / max(1, len(rows)))
    return seconds[0] - seconds[1]


def row_map_vectorisable(view: CheckedPipe) -> Iterator[Finding]:
    """Functions of rows of a table that give the same, and faster, if they are called with whole columns."""
    for stage in view.stages():
        function = getattr(stage.op, "function", None)
        plain = stage.op.kind == "map" and isinstance(function, FunctionType) and _is_expression_of_arrays(function)
        if not plain or getattr(stage.op, "rng", True) or stage.input.schema is None or not view.rows:
            continue
        rows = view.sample(stage.input, TIMED_ROWS).rows
        times = _faster_on_columns(cast("Callable[[Any], Any]", function), rows)
        if times is None:
            continue
        text = (
            f"`{node_code(stage.node).lstrip('.')}` gives the same, and is {times:.0f} times as fast, if it is called "
            "with whole columns"
        )
        repair = f'{code_to_run(stage.node).replace(".map(", ".map_batches(", 1)[:-1]}, 1024, format="numpy")'
        yield Finding("row-map-vectorisable", "hint", stage.call_site, text, repair)


def _is_expression_of_arrays(function: FunctionType) -> bool:
    """Whether a function reads nothing but its row, constants and modules, so that a trial changes nothing."""
    known = (int, float, str, bool, np.integer, np.floating, np.ndarray, ModuleType)
    names = [name for name in global_names(function) if name in function.__globals__]
    values = [function.__globals__[name] for name in names]
    builtins = [name for name in global_names(function) if name not in function.__globals__]
    return (
        function.__code__.co_argcount == 1
        and not builtins
        and all(isinstance(value, known) for value in [*values, *closure(function).values()])
    )


def _faster_on_columns(function: Callable[[Any], Any], rows: list[Any]) -> float | None:
    """How many times as fast a function is on columns; None if it gives anything else there."""
    if len(rows) < LEAST_ROWS or not all(isinstance(row, Mapping) for row in rows):
        return None
    try:
        columns = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
        begin = time.perf_counter()
        expected = [function(row) for row in rows]
        between = time.perf_counter()
        results = function(columns)
        end = time.perf_counter()
        if not isinstance(results, Mapping) or any(len(value) != len(rows) for value in results.values()):
            return None
        for name, values in results.items():
            one_by_one = np.asarray([row[name] for row in expected])
            if not np.array_equal(np.asarray(values), one_by_one) or (one_by_one == one_by_one[0]).all():
                return None  # equal rows would hide that it mixes them
        if any(row.keys() != results.keys() for row in expected):
            return None
    except Exception:  # it needs one row
        return None
    times = (between - begin) / max(1e-9, end - between)
    return times if times >= MUCH_FASTER else None
