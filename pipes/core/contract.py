"""Refuses an operator that breaks the contract, where the chain is written."""

from __future__ import annotations

from weakref import WeakSet

from ..errors import ArgumentTypeError, CallSite, PlanError, with_call_site
from .code import step_code
from .operator import Operator, Order

MAX_DEPTH = 150
"""Operators in a row: up to four calls each, of the thousand that Python allows."""
_accepted: WeakSet[type] = WeakSet()  # classes: each is checked once


def check_contract(op: object, *, reads_inputs: bool, call_site: CallSite | None) -> None:
    """Raises an `ArgumentTypeError` that names the rule, its reason and its repair."""
    kind = type(op)
    if kind not in _accepted:
        broken = _broken_rule(op)
        if broken is not None:
            raise ArgumentTypeError(with_call_site(broken, call_site))
        _accepted.add(kind)
    if reads_inputs and not isinstance(getattr(op, "order", None), Order):
        raise ArgumentTypeError(with_call_site(_order_rule(op), call_site))


def check_streamed(op: Operator, call_site: CallSite | None) -> None:
    """Raises a `PlanError` if an operator that only gives rows by position reads from a streamed pipe."""
    if type(op).blocks is Operator.blocks:
        raise PlanError(
            with_call_site(
                f"`{step_code(op, source=False)}` gives rows by position only, so it needs a pipe that is indexed, "
                "and this one is streamed; put `.load()` before it, or define `blocks`",
                call_site,
            )
        )


def check_depth(op: Operator, depth: int, call_site: CallSite | None) -> None:
    """Raises a `PlanError` if so many operators follow each other that a run would exceed Python's recursion limit."""
    if depth > MAX_DEPTH:
        raise PlanError(
            with_call_site(
                f"`{step_code(op, source=False)}` is operator {depth} in a row, and {MAX_DEPTH} are most, because each "
                "calls the one before it; call several functions in one `.map`, or join many pipes in one call",
                call_site,
            )
        )


def _broken_rule(op: object) -> str | None:
    name = type(op).__name__
    if not isinstance(op, Operator):
        if isinstance(op, type) and issubclass(op, Operator):
            return (
                f"a link of a chain must be an operator but got the class `{op.__name__}`; call it: "
                f"`{op.__name__}(...)`"
            )
        return f"a link of a chain must be an operator but got one of type {name}; derive its class from `Operator`"
    if not _is_frozen_dataclass(type(op)):
        return (
            f"`{name}` must be a frozen dataclass, because loaders share and compare operators by their fields; "
            "decorate the class with `@dataclass(frozen=True)`"
        )
    kind = getattr(op, "kind", None)
    if not isinstance(kind, str) or not kind.isidentifier():
        got = "" if kind is None else f" that is an identifier but has: {kind!r}"
        return (
            f"`{name}` must have a `kind`{got}, because the chain's code, its states and the keys of its random draws "
            f'name operators by it; set `kind = "{name.lower()}"`'
        )
    if type(op).rows is Operator.rows and type(op).blocks is Operator.blocks:
        return (
            f"`{name}` must define `rows` or `blocks`, because it has no other way to give rows; define `blocks` to "
            "give them in order, `rows` to give them by position"
        )
    return None


def _is_frozen_dataclass(cls: type) -> bool:
    """Whether `cls`, or the base that makes its instances, is decorated."""
    for base in cls.__mro__:
        parameters = vars(base).get("__dataclass_params__")
        if parameters is not None:
            return bool(parameters.frozen)
        if "__init__" in vars(base):
            return False
    return False


def _order_rule(op: object) -> str:
    name = type(op).__name__
    order = getattr(op, "order", None)
    got = "" if order is None else f" as a member of `Order` but has: {order!r}"
    return (
        f"`{name}` must state its `order`{got}, because that decides where its rows may be divided among shards; set "
        "`order = Order.ROW_LOCAL` if it treats each row by itself, and `order = Order.GLOBAL` if it looks at other "
        "rows or at positions"
    )
