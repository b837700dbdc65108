"""The few forms in which a parameter may choose among groups, as the proof of a rollup reads them in a typed tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from queries.errors import Refused

Nodes = list[exp.Expr]
"""The parameters' nodes of a form that was found; empty where it was not."""


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What must all hold, for ``node`` to hold."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def same(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two expressions are one, written the same."""
    return one == other and one.sql("bigquery", comments=False) == other.sql("bigquery", comments=False)


def parameter_of(node: exp.Expr | None, name: str) -> exp.Expr | None:
    """``node`` itself where it is the parameter ``name``."""
    return node if isinstance(node, exp.Parameter) and node.name == name else None


def from_on(node: exp.Expr, inner: exp.Expr, name: str) -> Nodes:
    """``inner >= @name``, or ``@name <= inner``."""
    return _compared(node, inner, name, exp.GTE, exp.LTE)


def below(node: exp.Expr, inner: exp.Expr, name: str) -> Nodes:
    """``inner < @name``, or ``@name > inner``."""
    return _compared(node, inner, name, exp.LT, exp.GT)


def _compared(node: exp.Expr, inner: exp.Expr, name: str, straight: type[exp.Expr], turned: type[exp.Expr]) -> Nodes:
    if type(node) is straight:
        value, bound = node.this, node.expression
    elif type(node) is turned:
        value, bound = node.expression, node.this
    else:
        return []
    found = parameter_of(bound.unnest(), name)
    return [found] if found is not None and same(value.unnest(), inner) else []


def member(node: exp.Expr, inner: exp.Expr, name: str) -> Nodes:
    """``inner IN UNNEST(@name)``."""
    unnest = node.args.get("unnest") if type(node) is exp.In else None
    found = parameter_of(unnest.expressions[0].unnest(), name) if unnest is not None else None
    return [found] if found is not None and same(node.this.unnest(), inner) else []


def member_or_empty(node: exp.Expr, inner: exp.Expr, name: str) -> Nodes:
    """``ARRAY_LENGTH(@name) = 0 OR inner IN UNNEST(@name)``: an empty list lets every value through."""
    first, held = _either(node, inner, name)
    if type(first) is not exp.EQ or type(first.this) is not exp.ArraySize:
        return []
    found, none = parameter_of(first.this.this, name), first.expression
    zero = isinstance(none, exp.Literal) and not none.is_string and none.name == "0"
    return [found, *held] if found is not None and zero else []


def member_or_null(node: exp.Expr, inner: exp.Expr, name: str) -> Nodes:
    """``@name IS NULL OR inner IN UNNEST(@name)``: a list that is not given lets every value through."""
    first, held = _either(node, inner, name)
    if type(first) is not exp.Is or not isinstance(first.expression, exp.Null):
        return []
    found = parameter_of(first.this.unnest(), name)
    return [found, *held] if found is not None else []


def _either(node: exp.Expr, inner: exp.Expr, name: str) -> tuple[exp.Expr | None, Nodes]:
    """What stands before ``OR inner IN UNNEST(@name)``, and the nodes of that."""
    held = member(node.expression.unnest(), inner, name) if type(node) is exp.Or else []
    return (node.this.unnest(), held) if held else (None, [])


def shown_in(value: exp.Expr, name: str, levels: Iterable[str]) -> tuple[exp.Expr, set[str], Nodes]:
    """A dimension without the condition on ``@name`` that leaves it out: what it is of, at which levels, and the nodes.

    ``CASE WHEN @name = '…' THEN x END``, ``IN (…)``, ``OR`` of those, or ``IF(…, x, NULL)``. Raises ``Refused``.
    """
    if isinstance(value, exp.Case) and value.this is None and len(value.args["ifs"]) == 1:
        branch, otherwise = value.args["ifs"][0], value.args.get("default")
    elif isinstance(value, exp.If):
        branch, otherwise = value, value.args.get("false")
    else:
        return value, set(levels), []
    nodes: Nodes = []
    texts = _texts(branch.this, name, nodes)
    if texts is None:
        return value, set(levels), []  # a dimension that is a CASE of something else
    if otherwise is not None and not _is_null(otherwise):
        raise Refused(f"where @{name} leaves a dimension out, it is NULL", otherwise)
    return branch.args["true"], set(levels) & texts, nodes


def _texts(condition: exp.Expr, name: str, nodes: Nodes) -> set[str] | None:
    """The texts of ``@name`` for which a condition holds, ``None`` where it is a condition on something else."""
    condition = condition.unnest()
    if type(condition) is exp.Or:
        sides = [_texts(side, name, nodes) for side in (condition.this, condition.expression)]
        return None if None in sides else {text for side in sides for text in side or ()}
    if type(condition) is exp.EQ:
        found, items = parameter_of(condition.this, name), [condition.expression]
    elif type(condition) is exp.In and condition.expressions:
        found, items = parameter_of(condition.this, name), condition.expressions
    else:
        return None
    if found is None or not all(isinstance(item, exp.Literal) and item.is_string for item in items):
        return None
    nodes.append(found)
    return {item.name for item in items}


def _is_null(node: exp.Expr) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Null) or (isinstance(node, exp.Cast) and _is_null(node.this))
