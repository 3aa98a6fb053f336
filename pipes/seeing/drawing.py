"""`Drawing`: a pipe as nested boxes of HTML, with what the plan says of each operator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..core.graph import Node, node_code, walk
from ..core.saving import write_text
from ..engine.stage import resolve
from ..errors import text_of
from ..plan.explain import OperatorFacts, check_numbers, facts, head, plan_of, remarks
from .html import Html, fragment, html, page, prose

BRANCHES = 8
"""The inputs of an operator that are drawn; of more, the number."""


class Drawing:
    """A pipe as nested boxes. A notebook shows it; `save` writes it to a file.

    Example:
        >>> import feedpipe as fp
        >>> drawing = fp.from_sequence(range(10)).shuffle().batch(4).draw()
        >>> drawing
        Drawing(3 operators; .save("pipe.html") writes a page)
        >>> drawing.save("pipe.html")
    """

    def __init__(self, title: str, lines: Sequence[str], boxes: Html, count: int) -> None:
        self._title = title
        self._body = [html("<p>{}</p>", prose(line)) for line in lines], boxes
        self._count = count

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing as a page, in one file that loads nothing.

        Args:
            path: ends in .html.

        Raises:
            ArgumentError: it has another ending, or its folder does not exist.
        """
        write_text(path, page(self._title, *self._body), endings=(".html",))

    def _repr_html_(self) -> str:
        return fragment(html("<b>{}</b>", prose(self._title)), *self._body)

    def __repr__(self) -> str:
        return f'Drawing({self._count} operator{"s" * (self._count > 1)}; .save("pipe.html") writes a page)'


def drawn(root: Node, *, world_size: int = 1, workers: int = 0, shards: int | None = None) -> Drawing:
    """The drawing of a graph with its plan. If that cannot be made here, it has no lengths, and says why."""
    check_numbers(world_size, workers, shards)
    try:
        plan = plan_of(resolve(root), world_size=world_size, workers=workers, shards=shards)
        boxes = _Boxes(facts(plan))
        return boxes.drawing(plan.root, [head(plan), *remarks(plan, workers)])
    except Exception as error:
        reason = f"{type(error).__name__}: {text_of(error)}"
        return _Boxes({}).drawing(root, [f"the plan cannot be made here, so there are no lengths: {reason}"])


def outlined(root: Node) -> str:
    """A graph for a notebook, without a plan: it lists and reads nothing."""
    return _Boxes({}).drawing(root, [])._repr_html_()  # pyright: ignore[reportPrivateUsage]


class _Boxes:
    """The boxes of a graph, with what its plan says of operators."""

    def __init__(self, found: Mapping[Node, OperatorFacts]) -> None:
        self._found = found
        self._drawn: set[Node] = set()

    def drawing(self, root: Node, lines: Sequence[str]) -> Drawing:
        return Drawing("A plan; nothing has run", lines, self._column(root), sum(1 for _ in walk(root)))

    def _column(self, end: Node) -> Html:
        """The boxes of a chain, from its source to `end`; further inputs of an operator stand beside the chain."""
        chain = [end]
        while chain[-1].inputs and chain[-1] not in self._drawn:
            chain.append(chain[-1].inputs[0])
        boxes: list[Html] = []
        for node in reversed(chain):
            if node in self._drawn:
                boxes.append(html('<div class="box"><code>{}</code> <small>drawn above</small></div>', node_code(node)))
                continue
            self._drawn.add(node)
            if len(node.inputs) > 1:
                branches = [html('<div class="column">{}</div>', boxes)]
                branches += [self._column(other) for other in node.inputs[1:BRANCHES]]
                if (more := len(node.inputs) - BRANCHES) > 0:
                    branches.append(html("<small>and {} more</small>", f"{more:,}"))
                boxes = [html('<div class="side">{}</div>', branches)]
            boxes.append(self._box(node))
        return html('<div class="column">{}</div>', boxes)

    def _box(self, node: Node) -> Html:
        fact = self._found.get(node)
        notes = [fact.size, *fact.notes] if fact else []
        notes += [] if node.call_site is None else [str(node.call_site)]
        below = [html("<small>{}</small>", text) for text in fact.below] if fact else []
        return html(
            '<div class="box"><code>{}</code> <small>{}</small></div>{}', node_code(node), " · ".join(notes), below
        )
