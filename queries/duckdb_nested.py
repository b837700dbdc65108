"""Arrays and structs for DuckDB, with GoogleSQL's meaning.

What orders the elements of an array stands inside the aggregate that collects them: the order of
a query in FROM, or below ``ARRAY``, is nobody's promise.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from queries.duckdb_dialect import call, cast, rule
from queries.names import output_items, output_names
from queries.nested import array_query

_ROW: Final = "_q"
_ELEMENTS: Final = "gsql_elements"
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


@rule(exp.Unnest)
def _unnest(node: exp.Expr) -> exp.Expr:
    """An UNNEST in FROM as a query: there the engine reads every expression, in a table function it does not."""
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        return node
    array = exp.Column(this=exp.to_identifier("a"), table=exp.to_identifier(_ROW, quoted=True))
    shown = [_named(call("unnest", array), alias.columns[0].name)]
    if isinstance(node.args.get("offset"), exp.Identifier):
        # DuckDB counts elements from 1.
        place = exp.Sub(this=call("generate_subscripts", array.copy(), 1), expression=exp.Literal.number(1))
        shown.append(_named(cast(exp.Paren(this=place), "BIGINT"), node.args["offset"].name))
    held = exp.Select(expressions=[exp.Alias(this=node.expressions[0], alias=exp.to_identifier("a"))])
    source = exp.Subquery(this=held, alias=exp.TableAlias(this=exp.to_identifier(_ROW, quoted=True)))
    query = exp.Select(expressions=shown, from_=exp.From(this=source))
    out = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias.name, quoted=True)))
    out.meta[_ELEMENTS] = True
    return out


@rule(exp.Join)
def _join(node: exp.Expr) -> exp.Expr:
    if _ELEMENTS in node.this.meta and node.args.get("on") is None:
        # GoogleSQL lets an UNNEST go without ON: every element belongs to its row.
        if node.args.get("side") == "LEFT":
            node.set("on", exp.Boolean(this=True))
        else:
            node.set("kind", "CROSS")
    return node


@rule(exp.Array)
def _array(node: exp.Expr) -> exp.Expr:
    query = array_query(node)
    if not isinstance(query, exp.Query):
        return node
    value = _row_value(query)
    source, keys = _derived(query)
    collected = call("list", exp.Order(this=value, expressions=keys))
    select = exp.Select(expressions=[call("coalesce", collected, exp.Array())], from_=exp.From(this=source))
    return exp.Subquery(this=select)


@rule(exp.Subquery)
def _subquery(node: exp.Expr) -> exp.Expr:
    query = node.this
    if not isinstance(query, exp.Select) or query.args.get("kind") != "STRUCT":
        return node
    value = _row_value(query)
    source, _ = _derived(query)
    node.set("this", exp.Select(expressions=[value], from_=exp.From(this=source)))
    return node


def _row_value(query: exp.Query) -> exp.Expr:
    """A row of ``_derived(query)`` as a value: its one column, or the STRUCT of all."""
    if query.args.get("kind") != "STRUCT":
        return _own("_c0")
    return _pack([(name, _own(f"_c{place}")) for place, name in enumerate(output_names(query))])


def _derived(query: exp.Query) -> tuple[exp.Subquery, list[exp.Expr]]:
    """The query as a source ``_q`` of columns ``_c0``, ``_c1``, …, and what orders its rows there.

    The order is complete: rows that tie are ordered by every column.
    """
    items = output_items(query)
    order = query.args.get("order")
    written = list(order.expressions) if order is not None else []
    shown: list[exp.Expr] = [_named(item.unalias().copy(), f"_c{place}") for place, item in enumerate(items)]
    keys: list[exp.Expr] = []
    for place, item in enumerate(written):
        name = f"_k{place}"
        if isinstance(item.this, exp.Literal):
            name = f"_c{int(item.this.name) - 1}"
        else:
            shown.append(_named(item.this.copy(), name))
        keys.append(_ordered(_own(name), item))
    keys.extend(_ordered(_own(f"_c{place}"), None) for place in range(len(items)))
    if order is not None and query.args.get("limit") is None and query.args.get("offset") is None:
        query.set("order", None)
    elif order is not None:
        for number in range(1, len(items) + 1):
            order.append("expressions", _ordered(exp.Literal.number(number), None))
    first = query
    while isinstance(first, exp.SetOperation):
        first = first.this.unnest()
    first.set("expressions", shown)
    query.set("kind", None)
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(_ROW, quoted=True))), keys


def _own(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(_ROW, quoted=True))


def _named(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _ordered(value: exp.Expr, like: exp.Expr | None) -> exp.Ordered:
    if like is None:
        return exp.Ordered(this=value, nulls_first=True)
    return exp.Ordered(this=value, desc=like.args.get("desc"), nulls_first=like.args.get("nulls_first"))


def _pack(fields: list[tuple[str, exp.Expr]]) -> exp.Struct:
    return exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value) for name, value in fields
        ]
    )


@rule(exp.Struct)
def _struct(node: exp.Expr) -> exp.Expr:
    return _pack([(item.this.name.lower(), item.expression) for item in node.expressions])


@rule(exp.Dot)
def _field(node: exp.Expr) -> exp.Expr:
    return call("struct_extract", node.this, node.expression.name.lower())


@rule(exp.Bracket)
def _element(node: exp.Expr) -> exp.Expr:
    name = "ordinal" if node.args["offset"] else "offset"
    return call(f"gsql_safe_{name}" if node.args.get("safe") else f"gsql_{name}", node.this, node.expressions[0])


@rule(exp.ArraySize)
def _length(node: exp.Expr) -> exp.Expr:
    return call("len", node.this)


@rule(exp.ArrayReverse)
def _reverse(node: exp.Expr) -> exp.Expr:
    return call("list_reverse", node.this)


@rule(exp.ArrayConcat)
def _concat(node: exp.Expr) -> exp.Expr:
    # ``list_concat`` would pass over a NULL array.
    out = node.this
    for item in node.expressions:
        out = exp.DPipe(this=out, expression=item)
    return exp.Paren(this=out)


@rule(exp.ArrayToString)
def _to_string(node: exp.Expr) -> exp.Expr:
    absent = node.args.get("null")
    if absent is None:
        return call("gsql_join", node.this, node.expression)
    return call("gsql_join_nulls", node.this, node.expression, absent)


@rule(exp.GenerateSeries)
def _generate(node: exp.Expr) -> exp.Expr:
    step = node.args.get("step") or cast(exp.Literal.number(1), "BIGINT")
    return call("gsql_generate_array", node.args["start"], node.args["end"], step)


@rule(exp.GenerateDateArray)
def _generate_dates(node: exp.Expr) -> exp.Expr:
    step = node.args["step"]
    unit, amount = step.text("unit").upper(), step.this
    times = _MONTHS.get(unit, 7 if unit == "WEEK" else 1)
    if times > 1:
        amount = exp.Paren(this=exp.Mul(this=exp.Paren(this=amount), expression=exp.Literal.number(times)))
    name = "gsql_generate_months" if unit in _MONTHS else "gsql_generate_days"
    return call(name, node.args["start"], node.args["end"], amount)


@rule(exp.IgnoreNulls)
def _ignore_nulls(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Window):
        return node
    inner: exp.Expr = node.this
    return inner


@rule(exp.ArrayAgg)
def _array_agg(node: exp.Expr) -> exp.Expr:
    order, limit = node.this, None
    if isinstance(order, exp.Limit):
        order, limit = order.this, order.expression
    held = order.this
    value = held.expressions[0] if isinstance(held, exp.Distinct) else held
    keys = list(order.expressions)
    if held is value:
        keys.append(_ordered(value.copy(), None))
    out: exp.Expr = call("list", exp.Order(this=held, expressions=keys))
    if isinstance(node.parent, exp.IgnoreNulls):
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        out = exp.Filter(this=out, expression=exp.Where(this=present))
    return out if limit is None else call("list_slice", out, 1, limit)
