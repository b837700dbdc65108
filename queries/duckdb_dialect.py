"""Typed GoogleSQL to DuckDB with the same meaning.

Sound only on trees of ``rewrite``: elaboration made operands equal in type, so a rule looks at
one type. A node without a rule means the same in both dialects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.conditions import is_scoped
from queries.duckdb_types import TYPES, duckdb_type
from queries.names import output_items
from queries.typed import type_of

S = SqlType
Rule = Callable[[exp.Expr], exp.Expr]
RULES: Final[dict[type[exp.Expr], Rule]] = {}


def to_duckdb(tree: exp.Query) -> tuple[str, str]:
    """DuckDB text of a governed query, and the same with a typed NULL for each parameter. Uses up ``tree``."""
    _complete_order(tree)
    out = _translate(tree)
    text = out.sql(dialect="duckdb")
    for parameter in list(out.find_all(exp.Parameter)):
        parameter.replace(exp.Null())
    return text, out.sql(dialect="duckdb", copy=False)


def _complete_order(tree: exp.Query) -> None:
    """Order ties of the outermost query by its nested columns too, which GoogleSQL itself cannot."""
    order = tree.args.get("order")
    for number, item in enumerate(output_items(tree), start=1):
        value = item.unalias()
        if order is not None and is_typed(value) and type_of(value).nested:
            order.append("expressions", exp.Ordered(this=exp.Literal.number(number), nulls_first=True))


def _translate(node: exp.Expr) -> exp.Expr:
    for child in list(node.iter_expressions()):
        # A rule may put the child inside its replacement, so its place is read first.
        arg, index = child.arg_key, child.index
        changed = _translate(child)
        if changed is not child and arg is not None:
            node.set(arg, changed, index=index)
    found = RULES.get(type(node))
    return node if found is None else found(node)


def rule(*nodes: type[exp.Expr]) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(nodes, function))
        return function

    return register


def call(name: str, *arguments: exp.Expr | str | int) -> exp.Anonymous:
    values = [
        argument
        if isinstance(argument, exp.Expr)
        else exp.Literal(this=str(argument), is_string=isinstance(argument, str))
        for argument in arguments
    ]
    return exp.Anonymous(this=name, expressions=values)


def cast(node: exp.Expr, name: str) -> exp.Cast:
    return exp.Cast(this=node, to=_data_type(name).copy())


@lru_cache(maxsize=256)
def _data_type(name: str) -> exp.DataType:
    """Parsing a name costs more than all else of a cast."""
    return exp.DataType.build(name, dialect="duckdb")


def typed(node: exp.Expr, kind: SqlType) -> exp.Cast:
    return cast(node, TYPES[kind])


def is_typed(node: exp.Expr) -> bool:
    return "gsql_type" in node.meta


@rule(exp.Parameter)
def _parameter(node: exp.Expr) -> exp.Expr:
    return cast(node, duckdb_type(type_of(node)) if is_typed(node) else "BIGINT")


@rule(exp.Literal)
def _literal(node: exp.Expr) -> exp.Expr:
    if node.is_string or not is_typed(node):
        return node
    if type_of(node).name is S.INT64:
        return cast(
            exp.Literal.number(node.name) if not node.name.startswith("-") else exp.Literal.string(node.name), "BIGINT"
        )
    return cast(exp.Literal.string(node.name), "DOUBLE")


@rule(exp.In)
def _in(node: exp.Expr) -> exp.Expr:
    unnest = node.args.get("unnest")
    if unnest is None:
        return node
    array = unnest.expressions[0]
    if is_scoped(node):
        # Joined and not searched, so that a long list costs no more than a short one.
        return exp.EQ(this=node.this, expression=exp.Any(this=exp.Paren(this=array)))
    if not isinstance(array.this, exp.Parameter):
        return call("gsql_in_array", node.this, array)
    # No argument holds a NULL element. A NULL array holds nothing, where DuckDB would answer NULL.
    return call("list_contains", call("coalesce", array, exp.Array()), node.this)


@rule(exp.Like)
def _like(node: exp.Expr) -> exp.Expr:
    test = exp.Escape(this=exp.Like(this=node.this, expression=node.expression), expression=exp.Literal.string("\\"))
    return exp.Paren(this=exp.Not(this=exp.Paren(this=test)) if node.args.get("negate") else test)


@rule(exp.If)
def _if(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Case) and node.arg_key == "ifs":
        return node
    branch = exp.If(this=node.this, true=node.args["true"])
    return exp.Case(ifs=[branch], default=node.args["false"])


@rule(exp.Greatest, exp.Least)
def _extreme_of(node: exp.Expr) -> exp.Expr:
    name = "gsql_greatest" if isinstance(node, exp.Greatest) else "gsql_least"
    return call(name, exp.Array(expressions=[node.this, *node.expressions]))


def local(value: exp.Expr, zone: str) -> exp.Expr:
    return exp.Paren(this=exp.AtTimeZone(this=value, zone=exp.Literal.string(zone)))
