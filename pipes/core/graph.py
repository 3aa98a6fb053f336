"""`Node`: graphs of operators as plain data; walking, naming, rewriting, and writing them as code."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from typing import Protocol, Self, TypeVar, cast

from ..errors import CallSite
from .code import step_code
from .operator import READS_FOR_ALL_EPOCHS, ElementForm, Operator, Trait, check_contract, check_streamed


class Node:
    """One operator and its inputs. Immutable; compared by identity.

    Attributes:
        op: the operator's value.
        inputs: the nodes that it reads from.
        call_site: the user's file and line.
        indexed: whether rows can be read at any positions; otherwise they come in order only.
        depth: the number of operators on the longest way from a source, this one included.
        has_user_boundary: whether the user sets the place where shards divide the rows, here or below.
        resolved: the last result of `resolve` of `engine.stage`: its key, and its node, None for this one.
    """

    __slots__ = ("__weakref__", "call_site", "depth", "has_user_boundary", "indexed", "inputs", "op", "resolved")

    op: Operator
    inputs: tuple[Node, ...]
    call_site: CallSite | None
    indexed: bool
    depth: int
    has_user_boundary: bool
    resolved: tuple[int | None, Node | None]

    def __init__(self, op: Operator, inputs: tuple[Node, ...] = (), call_site: CallSite | None = None) -> None:
        check_contract(op, reads_inputs=bool(inputs), call_site=call_site)
        fix = super().__setattr__
        fix("op", op)
        fix("inputs", inputs)
        fix("call_site", call_site)
        fix("depth", 1 + max((node.depth for node in inputs), default=0))
        divided_below = any(node.has_user_boundary for node in inputs)
        fix("has_user_boundary", divided_below or op.trait is Trait.SHARD)
        fix("resolved", (None, None))
        fix("indexed", op.indexed([node.indexed for node in inputs]))
        if not self.indexed:
            check_streamed(op, call_site)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (_SentOperator.unless_importable(self.op), self.inputs, self.call_site)

    def __copy__(self) -> Self:
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a pipe is immutable; chain an operator to make a new one (setting `{name}`)")


class _SentOperator:
    """An operator with functions that no other process can import, such as lambdas, as a pickle holds it."""

    def __init__(self, op: Operator) -> None:
        self._op = op

    @staticmethod
    def unless_importable(op: Operator) -> Operator | _SentOperator:
        try:
            pickle.Pickler(io.BytesIO(), 5, buffer_callback=lambda buffer: None).dump(op)
        except Exception:  # each class has errors of its own
            return _SentOperator(op)
        return op

    def __reduce__(self) -> tuple[object, ...]:
        import cloudpickle  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

        return pickle.loads, (cloudpickle.dumps(self._op),)


class HasInputs(Protocol):
    """A node, or a stage that was made of one."""

    @property
    def inputs(self) -> Sequence[HasInputs]: ...


N = TypeVar("N", bound=HasInputs)


def walk(root: N) -> Iterator[N]:
    """All nodes, each once, the inputs of a node before the node."""
    seen: set[int] = set()
    stack: list[tuple[N, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(cast("Sequence[N]", node.inputs)))


def numbers(root: Node) -> dict[Node, int]:
    """The number of each operator, inputs first; one that is transparent has that of its input."""
    by_node: dict[Node, int] = {}
    count = 0
    for node in walk(root):
        if node.op.trait is Trait.TRANSPARENT:
            by_node[node] = by_node[node.inputs[0]]
        else:
            by_node[node], count = count, count + 1
    return by_node


def find_reshuffle(root: Node) -> Node | None:
    """A node that gives `root` other rows, or another order of them, in each epoch; None if there is none."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.inputs and node.op.reshuffles():
            return node
        if node.op.trait not in READS_FOR_ALL_EPOCHS:  # that reads its input once, for all epochs
            stack += node.inputs
    return None


def names(root: Node) -> dict[Node, str]:
    """The name of each operator, the key of its randomness.

    It is the operator's kind and its count among its kind on the way from the source, with the number of the source if
    a graph has several. So adding a `map` changes no shuffle. An operator below an input that the user has named counts
    from there, and the one that reads named inputs counts as a source: no name depends on what a branch beside has.
    """
    nodes = list(walk(root))
    places = {node: place for place, node in enumerate(nodes)}
    inputs = [[places[child] for child in node.inputs] for node in nodes]
    ops = [node.op for node in nodes]
    found = named([op.kind for op in ops], inputs, [op.name for op in ops], [op.input_names for op in ops])
    return dict(zip(nodes, found, strict=True))


def named(
    kinds: Sequence[str],
    inputs: Sequence[Sequence[int]],
    own: Sequence[str | None],
    input_names: Sequence[Sequence[str]],
) -> list[str]:
    """The names of operators by number, inputs first; `own` and `input_names` are those that users have given."""
    output: list[str] = []
    counts: list[dict[str, int]] = []  # of each kind on the way to an operator
    sources: list[int] = []  # the number of the first source
    source_counts: dict[str, int] = {}
    uses: dict[str, int] = {}
    by_number = zip(kinds, own, branches(inputs, input_names), strict=True)
    for number, (kind, own_name, branch) in enumerate(by_number):
        count: dict[str, int] = {}
        children = [] if input_names[number] else inputs[number]
        for child in children:
            for other, most in counts[child].items():
                count[other] = max(count.get(other, 0), most)
        count[kind] = count.get(kind, 0) + 1
        counts.append(count)
        if children:
            sources.append(sources[children[0]])
        else:
            sources.append(source_counts.get(branch, 0))
            source_counts[branch] = sources[-1] + 1
        suffix = f"@{sources[-1]}" if sources[-1] else ""
        name = own_name or f"{branch}{kind}-{count[kind]}{suffix}"
        uses[name] = uses.get(name, 0) + 1
        output.append(name if uses[name] == 1 else f"{name}/{uses[name]}")
    return output


def branches(inputs: Sequence[Sequence[int]], input_names: Sequence[Sequence[str]]) -> list[str]:
    """The names of the inputs on the way from the last operator to each: "web/". Of several ways, the first by name."""
    found: dict[int, str] = {}
    for number in reversed(range(len(inputs))):
        own = found.setdefault(number, "")
        for place, child in enumerate(inputs[number]):
            branch = own + (f"{input_names[number][place]}/" if input_names[number] else "")
            found[child] = min(branch, found.get(child, branch))
    return [found[number] for number in range(len(inputs))]


def find_remote(root: Node) -> Node | None:
    """A node up to which workers run the graph; without one they run all of it."""
    return next((node for node in walk(root) if node.op.trait is Trait.WORKERS), None)


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """A node like `node` that reads from `inputs`; `node` itself if these are its inputs."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return Node(node.op, inputs, node.call_site)


def sent(root: Node) -> Node:
    """The graph in a process that sends its elements to another process. Names and cursors are those of `root`."""
    if root.op.trait is Trait.TRANSPARENT and len(root.inputs) == 1:
        return with_inputs(root, (sent(root.inputs[0]),))
    op = root.op.sent() if isinstance(root.op, ElementForm) else root.op
    return root if op is root.op else Node(op, root.inputs, root.call_site)


def node_code(node: Node) -> str:
    """The code that adds the operator of `node` to a chain, without its further inputs: `.batch(256)`, `.zip()`."""
    return step_code(node.op, source=not node.inputs or bool(node.op.input_names))


MAX_OPERATORS_REPEATED = 200
"""The longest code, in operators, that repeats a node that several others read."""


def chain_code(root: Node, prefix: str = "fp.") -> str:
    """The graph as code, one call a line if it is long.

    A node that several others read is written for each of them. If that makes the code too long, `...`
    replaces a node that is written before.
    """
    return _chain_code(root, prefix, set() if _operators(root) > MAX_OPERATORS_REPEATED else None)


def _chain_code(root: Node, prefix: str, written: set[Node] | None) -> str:
    calls: list[str] = []
    node = root
    while node.inputs and not node.op.input_names:
        if written is not None:
            if node in written:
                return "..." + "".join(reversed(calls))
            written.add(node)
        if node.op.call() is not None:
            others = [_chain_code(other, prefix, written).replace("\n", "\n    ") for other in node.inputs[1:]]
            calls.append(step_code(node.op, others, source=False))
        node = node.inputs[0]
    named = zip(node.op.input_names, node.inputs, strict=False)
    codes = [f"{name!r}: {_chain_code(other, prefix, written)}".replace("\n", "\n        ") for name, other in named]
    if sum(map(len, codes)) > 60:
        codes = ["".join(f"\n        {code}," for code in codes) + "\n    "]
    head = prefix + step_code(node.op, [f"{{{', '.join(codes)}}}"] if codes else [], source=True)
    calls.reverse()
    code = head + "".join(calls)
    if len(code) <= 88 and "\n" not in code:
        return code
    lines = "".join(f"\n    {call}" for call in calls)
    return f"(\n    {head}{lines}\n)"


def _operators(root: Node) -> int:
    """The number of operators in the code of the graph, each as often as it is written."""
    counts: dict[Node, int] = {}
    for node in walk(root):
        counts[node] = 1 + sum(counts[child] for child in node.inputs)
    return counts[root]
