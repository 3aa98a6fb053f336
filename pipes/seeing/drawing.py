"""`Drawing`: a pipe as a picture, with what is known of each operator, what was measured, and its first elements."""

from __future__ import annotations

import linecache
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..core.block import Block
from ..core.checks import check_int
from ..core.context import Context
from ..core.cursor import Cursor
from ..core.graph import Node, walk, with_inputs
from ..core.operator import Order, StageView
from ..core.process import bytes_text
from ..core.rows import BlockRows, Indices
from ..core.times import CONSUMER
from ..engine.run import elements
from ..engine.stage import bind, resolve
from ..errors import ArgumentError, CallSite, text_of
from ..ops._shared import PassThrough
from ..ops.slice import Take
from ..pictures.graph import EXPLORER_STYLE, SCRIPT, Box, Graph
from ..pictures.page import Content, Html, bar, fragment, markup, page, prose, short_number, table, tag
from ..pictures.values import ABOUT_PILLOW, NO_PILLOW, sample
from ..plan.explain import OperatorFacts, check_numbers, facts, head, plan_of, remarks
from ..plan.plan import Plan
from .verdict import KnownOperator, known_operators

if TYPE_CHECKING:
    from .report import OperatorTimes, Report

SAMPLE_SECONDS = 10.0
"""For the samples of all operators; an operator whose turn comes later is not run."""
LINES_AROUND = 2
"""The lines that are shown before and after the user's line."""
MEMBERS = 20
"""Of the operators that one box stands for, those that are named."""


class Drawing:
    """A picture of a pipe. A notebook shows it; `save` writes it to a file.

    Example:
        >>> import feedpipe as fp
        >>> drawing = fp.from_sequence(range(10)).shuffle().batch(4).draw()
        >>> drawing
        Drawing(3 operators; .save("pipe.html") writes a page)
        >>> drawing.save("pipe.svg")
    """

    def __init__(self, title: str, graph: Graph, panels: Sequence[Html], lines: Sequence[str]) -> None:
        self._title = title
        self._graph = graph
        self._panels = panels
        self._lines = lines

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file.

        Args:
            path: ends in .svg, for the picture alone; or in .html, for a page on which the panel of each operator has
                its line of code, its counts and its first elements. The page is one file, and loads nothing.

        Raises:
            ArgumentError: it has another ending.
        """
        suffix = Path(path).suffix
        if suffix not in (".svg", ".html"):
            raise ArgumentError(f"`path` must end in .html or .svg but got: {os.fspath(path)!r}")
        write_text(path, str(self._graph.svg()) if suffix == ".svg" else self._page())

    def _page(self) -> str:
        shares = [shape.share or 0.0 for shape in self._graph.shapes]
        first = shares.index(max(shares)) if any(shares) else len(shares) - 1
        notes = [ABOUT_PILLOW] if any(NO_PILLOW in panel for panel in self._panels) else []
        header = tag(
            "header", tag("h1", prose(self._title)), [tag("p", prose(line)) for line in (*self._lines, *notes)]
        )
        body = self._graph.explorer(self._panels, first)
        return page(self._title, tag("style", Html(EXPLORER_STYLE)), header, tag("main", body), script=SCRIPT)

    @property
    def fragment(self) -> str:
        """The picture for a notebook, and the operators as a table."""
        shown = tag("div", self._graph.image(), class_="wide")
        lines = [(tag("code", shape.first.code), *shape.facts, shape.measures) for shape in self._graph.shapes]
        operators = tag("details", tag("summary", "operators"), table((), lines))
        return fragment(tag("div", tag("b", prose(self._title))), shown, operators)

    def _repr_html_(self) -> str:
        return self.fragment

    def __repr__(self) -> str:
        count = sum(len(shape.boxes) for shape in self._graph.shapes)
        return f'Drawing({count} operator{"s" * (count > 1)}; .save("pipe.html") writes a page)'


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole file, or leave the one that is there."""
    target = Path(path)
    part = target.with_name(f"{target.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(target)


def drawn(
    root: Node,
    *,
    samples: int = 0,
    world_size: int = 1,
    workers: int = 0,
    shards: int | None = None,
    report: Report | None = None,
) -> Drawing:
    """The picture of a graph. If its plan cannot be made here, it is drawn without lengths, and says why.

    Args:
        root: the graph.
        samples: the elements to show of each operator; 0 runs nothing.
        world_size, workers, shards: of the plan.
        report: what was measured.
    """
    check_int("samples", samples, least=0)
    check_numbers(world_size, workers, shards)
    try:
        plan = plan_of(resolve(root), world_size=world_size, workers=workers, shards=shards)
        of_nodes, lines = facts(plan), [head(plan), *remarks(plan, workers)]
    except Exception as error:
        reason = f"the plan cannot be made here, so this is drawn without lengths and elements: {_in_words(error)}"
        return _picture(known_operators(root), {}, [reason], report)
    by_name = {plan.names[node]: fact for node, fact in of_nodes.items()}
    sampler = _Sampler(plan, samples).of if samples else None
    return _picture(known_operators(plan.root), by_name, lines, report, sampler)


def outlined(root: Node, report: Report | None = None) -> Drawing:
    """The picture of a graph without a plan: it lists and reads nothing."""
    return _picture(known_operators(root), {}, [], report)


def _picture(
    operators: Sequence[KnownOperator],
    by_name: Mapping[str, OperatorFacts],
    lines: list[str],
    report: Report | None,
    samples: Callable[[str], Html] | None = None,
) -> Drawing:
    graph = graph_of(operators, by_name, report)
    times = {} if report is None else {op.name: op for op in report.operators}
    panels: list[Html] = []
    for shape in graph.shapes:
        operator = operators[shape.members[0]]
        others = [operators[at].code for at in shape.members[1:]]
        name = operator.name
        panels.append(panel(operator, others, by_name.get(name), times.get(name), samples and samples(name)))
    title = "A plan; nothing has run" if report is None else report.verdict
    return Drawing(title, graph, panels, lines)


def graph_of(operators: Sequence[KnownOperator], by_name: Mapping[str, OperatorFacts], report: Report | None) -> Graph:
    """The boxes of operators, with what is known of them and what was measured."""
    places = {operator.name: place for place, operator in enumerate(operators)}
    times: Mapping[str, OperatorTimes] = {} if report is None else {op.name: op for op in report.operators}
    seconds = 0.0 if report is None else _seconds(report)
    boxes: list[Box] = []
    for operator in operators:
        fact, own = by_name.get(operator.name), times.get(operator.name)
        notes = [fact.size if fact else "", "" if operator.where is None else str(operator.where)]
        boxes.append(
            Box(
                code=operator.code,
                kind=(operator.code.partition("(")[0], operator.where),
                inputs=tuple(places[name] for name in operator.inputs),
                facts=[" · ".join(filter(None, notes))],
                gates=[] if fact is None else fact.below,
                share=None if own is None else own.share,
                rate=own.rows / seconds if own is not None and seconds else None,
            )
        )
    return Graph(boxes)


def _seconds(report: Report) -> float:
    """The time from the first element to the last one."""
    tables = [table for rank in report.ranks for table in rank.tables if table.thread == CONSUMER]
    return max((table.wall_ns for table in tables), default=0) / 1e9


def panel(
    operator: KnownOperator,
    others: Sequence[str],
    fact: OperatorFacts | None,
    own: OperatorTimes | None,
    samples: Html | None,
) -> Html:
    """What is known of an operator, and of those that look like it."""
    parts: list[Content] = [tag("h2", tag("code", operator.code))]
    if operator.where is not None:
        parts += [tag("p", str(operator.where), class_="soft"), _source(operator.where)]
    if fact is not None:
        parts += [tag("p", text) for text in (fact.size, *fact.notes, *fact.below)]
    if own is not None:
        parts.append(_counts(own))
    if others:
        named = [tag("code", code) for code in others[:MEMBERS]]
        rest = [tag("small", f"and {len(others) - MEMBERS:,} more")] if len(others) > MEMBERS else []
        parts += [tag("h3", f"{len(others):,} like it"), tag("p", [[one, tag("br")] for one in (*named, *rest)])]
    if samples is not None:
        parts += [tag("h3", "first elements"), samples]
    return markup(*parts)


def _counts(own: OperatorTimes) -> Html:
    about = "" if own.measured == 1 else "about "
    each = own.seconds / own.rows if own.rows else 0.0
    lines: list[tuple[str, Content]] = [
        ("share of the work", bar(own.share)),
        ("own time", f"{own.seconds:.2f} s, {duration(each)} a row"),
        ("on a CPU", bar(own.cpu)),
        ("waits for storage or calls", bar(own.waits)),
        ("rows", f"{about}{own.rows:,}"),
        ("bytes", f"{about}{bytes_text(own.nbytes)}"),
    ]
    counts = {"skipped": own.skipped, "by_name in its cache": own.hits, "not in its cache": own.misses}
    lines += [(name, f"{number:,}") for name, number in counts.items() if number]
    return table((), lines)


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{short_number(seconds * scale)} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _source(where: CallSite) -> Html | None:
    """The user's lines, the one of the operator marked."""
    lines: list[Html] = []
    for number in range(max(1, where.line - LINES_AROUND), where.line + LINES_AROUND + 1):
        if text := linecache.getline(where.file, number):
            lines.append(
                tag("span", f"{number:>4}  {text.rstrip()[:300]}\n", class_="hit" if number == where.line else None)
            )
    return tag("pre", lines) if lines else None


class _Sampler:
    """Runs a plan up to each operator, for its first elements, in this process and as epoch 0."""

    def __init__(self, plan: Plan, count: int) -> None:
        self._count = count
        self._end = time.monotonic() + SAMPLE_SECONDS
        self._nodes: dict[str, Node] = {}
        self._names: dict[Node, str] = {}
        limited: dict[Node, Node] = {}
        for node in walk(plan.root):
            copy = with_inputs(node, tuple(limited[child] for child in node.inputs))
            limited[node] = copy if node.inputs else Node(_TimeLimit(self._end), (copy,))
            self._nodes[plan.names[node]], self._names[copy] = limited[node], plan.names[node]

    def of(self, name: str) -> Html:
        """The first elements of an operator, or the error that came instead."""
        if time.monotonic() > self._end:
            return tag("p", f"not run: those of the operators before took {SAMPLE_SECONDS:.0f} seconds", class_="warn")
        parts: list[Html] = []
        try:
            with closing(Context()) as context:
                first = Node(Take(self._count), (self._nodes[name],))
                for element in elements(bind(first, self._names), context):
                    parts.append(tag("div", sample(element), class_="sample"))
        except Exception as error:
            parts.append(tag("p", _in_words(error), class_="warn"))
        return markup(*parts) if parts else tag("p", "there are none")


@dataclass(frozen=True)
class _TimeLimit(PassThrough):
    """Ends a run that reads on and on, such as that of a `filter` without a hit over an endless source."""

    kind: ClassVar[str] = "time_limit"
    order: ClassVar[Order] = Order.ROW_LOCAL

    until: float

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        self._check()
        return super().rows(stage, indices, context)

    def blocks(self, stage: StageView, at: Cursor, context: Context) -> Iterator[Block]:
        held: list[Block] = []
        for block in super().blocks(stage, at, context):
            self._check()
            held.append(block)
            del block
            yield held.pop()

    def _check(self) -> None:
        if time.monotonic() > self.until:
            raise TimeoutError(f"there were no more elements within {SAMPLE_SECONDS:.0f} seconds")


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {text_of(error)}"
