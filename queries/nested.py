"""Types of arrays and structs: their literals, their elements and fields, and what is made of queries."""

from __future__ import annotations

from functools import partial
from typing import Final

from sqlglot import exp

from contract.schema import Parameter, SqlType
from queries.elaborate import Elaborator, rule
from queries.errors import Refused
from queries.typed import Type, cast, convert, declared_type, read_type, set_source, set_type, struct_of

S = SqlType
_WITHOUT_ORDER: Final = (exp.In, exp.ArraySize, exp.Is)


@rule(exp.Array)
def _array(e: Elaborator, node: exp.Expr) -> Type:
    query = array_query(node)
    if query is not None:
        return _of_query(e, node, query)
    if not node.expressions:
        # Untyped as NULL is: what stands beside it gives it a type.
        return Type(None, array=True)
    element = e.same(node, node.expressions, node)
    if element.name is None:
        raise Refused("an array of NULL needs a type; write ARRAY<…>[NULL]", node)
    if element.array:
        raise Refused("an ARRAY of ARRAY does not exist; put a STRUCT between them", node)
    return element.repeated


def array_query(node: exp.Expr) -> exp.Expr | None:
    """The query of ``ARRAY(SELECT …)``; ``None`` for an array of expressions."""
    held = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(held, exp.Query) and not isinstance(held, exp.Subquery):
        return held
    if (
        isinstance(held, exp.Subquery)
        and "value_constructor" not in node.args
        and not isinstance(node.parent, exp.Cast)
    ):
        return held.unnest()
    return None


def _of_query(e: Elaborator, node: exp.Expr, query: exp.Expr) -> Type:
    kind = e.query_type(query)
    if kind.array:
        raise Refused("an ARRAY of ARRAY does not exist; select a STRUCT that holds it", node)
    order = query.args.get("order")
    if order is None:
        raise Refused("ARRAY(SELECT …) needs an ORDER BY, or it may answer differently each time", node)
    if query.args.get("distinct") is not None and not all(
        isinstance(item.this, exp.Literal) for item in order.expressions
    ):
        raise Refused("with DISTINCT, ORDER BY takes output columns", order)
    return kind.repeated


@rule(exp.Struct)
def _struct(e: Elaborator, node: exp.Expr) -> Type:
    fields = []
    for item in node.expressions:
        if not isinstance(item, exp.PropertyEQ):
            raise Refused("each field of a STRUCT has a name: STRUCT(value AS name)", item)
        kind = e.type(item.expression)
        if kind.name is None:
            raise Refused("a NULL field needs a type; write CAST(NULL AS …)", item)
        fields.append((item.this.name.lower(), kind))
    if not fields:
        raise Refused("a STRUCT has a field", node)
    return struct_of(fields, node)


@rule(exp.Tuple)
def _tuple(e: Elaborator, node: exp.Expr) -> Type:
    raise Refused("a tuple has no names; write STRUCT(a AS x, …), or compare the values one by one", node)


@rule(exp.Dot)
def _field(e: Elaborator, node: exp.Expr) -> Type:
    kind, name = e.type(node.this), node.expression.name
    if kind.array:
        raise Refused(f"an ARRAY has no field {name}; take an element with [OFFSET(n)], or UNNEST it", node)
    if kind.name is not S.STRUCT:
        raise Refused(f"{kind} has no field {name}", node)
    field = kind.field(name)
    if field is None:
        raise Refused(f"the STRUCT has no field {name}; it has {', '.join(known for known, _ in kind.fields)}", node)
    return field


@rule(exp.Bracket)
def _element(e: Elaborator, node: exp.Expr) -> Type:
    kind = e.type(node.this)
    if not kind.array or kind.name is None:
        raise Refused(f"a subscript takes an ARRAY, not {kind}", node)
    index = node.expressions[0]
    changed = convert(index, e.type(index), S.INT64)
    if changed is None:
        raise Refused("a subscript is an INT64", index)
    node.set("expressions", [changed])
    return kind.element


@rule(exp.ArraySize)
def _length(e: Elaborator, node: exp.Expr) -> Type:
    e.array(node, node.this)
    return Type(S.INT64)


@rule(exp.ArrayReverse)
def _reverse(e: Elaborator, node: exp.Expr) -> Type:
    return e.array(node, node.this).repeated


@rule(exp.ArrayConcat)
def _concat(e: Elaborator, node: exp.Expr) -> Type:
    kind = e.same(node, [node.this, *node.expressions], node)
    if not kind.array:
        raise Refused("ARRAY_CONCAT takes arrays", node)
    return kind


@rule(exp.ArrayToString)
def _to_string(e: Elaborator, node: exp.Expr) -> Type:
    if e.array(node, node.this).name is not S.STRING:
        raise Refused("ARRAY_TO_STRING takes an ARRAY<STRING>", node)
    e.expect(node, "expression", S.STRING)
    if node.args.get("null") is not None:
        e.expect(node, "null", S.STRING)
    return Type(S.STRING)


@rule(exp.GenerateSeries)
def _generate(e: Elaborator, node: exp.Expr) -> Type:
    for arg in ("start", "end", "step"):
        if node.args.get(arg) is not None:
            e.expect(node, arg, S.INT64)
    return Type(S.INT64, array=True)


@rule(exp.GenerateDateArray)
def _generate_dates(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "start", S.DATE)
    e.expect(node, "end", S.DATE)
    step = node.args["step"]
    if step.text("unit").upper() not in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR"):
        raise Refused("GENERATE_DATE_ARRAY takes an INTERVAL of DAY, WEEK, MONTH, QUARTER or YEAR", node)
    amount = step.this
    if isinstance(amount, exp.Literal) and amount.name.lstrip("-").isdigit():
        # The parser turns the number of an INTERVAL into text.
        step.set("this", exp.Literal.number(amount.name))
    e.expect(step, "this", S.INT64)
    set_type(step, Type(S.INT64))
    return Type(S.DATE, array=True)


@rule(exp.IgnoreNulls)
def _ignore_nulls(e: Elaborator, node: exp.Expr) -> Type:
    if not isinstance(node.this, exp.ArrayAgg):
        raise Refused("IGNORE NULLS is accepted in ARRAY_AGG only", node)
    return e.type(node.this)


@rule(exp.ArrayAgg)
def _array_agg(e: Elaborator, node: exp.Expr) -> Type:
    order, limit = node.this, None
    if isinstance(order, exp.Limit):
        order, limit = order.this, order.expression
    if not isinstance(order, exp.Order):
        raise Refused("ARRAY_AGG needs an ORDER BY inside, or it may answer differently each time", node)
    if limit is not None and not (isinstance(limit, exp.Literal) and limit.name.isdigit()):
        raise Refused("the LIMIT of ARRAY_AGG is a written number", node)
    held = order.this
    distinct = isinstance(held, exp.Distinct)
    if distinct:
        held = held.expressions[0]
    kind = e.type(held)
    if kind.name is None or kind.array:
        raise Refused("ARRAY_AGG takes a typed value that is no ARRAY", node)
    if distinct and (kind.nested or len(order.expressions) != 1 or order.expressions[0].this != held):
        raise Refused("ARRAY_AGG(DISTINCT x) takes ORDER BY x alone, and no STRUCT", node)
    for item in list(order.expressions):
        if isinstance(item.this, exp.Literal):
            raise Refused("ORDER BY inside takes columns and expressions", item)
        if not e.ties.takes_out(item, partial(e.type, item.this)):
            e.scalar(item.this, "ORDER BY")
    e.ties.note(node)
    return kind.value.repeated


def nested_cast(e: Elaborator, node: exp.Expr) -> Type:
    """``CAST(… AS ARRAY<…>)``, and what is read as one: ``ARRAY<T>[…]`` and ``STRUCT<x T>(…)``."""
    target = read_type(node.args["to"])
    node.set("this", _constructed(e, node.this, target))
    set_source(node, None)
    return target


def _constructed(e: Elaborator, node: exp.Expr, target: Type) -> exp.Expr:
    """``node`` as ``target``: literals part by part, anything else as GoogleSQL converts it by itself."""
    if target.array and isinstance(node, exp.Array) and array_query(node) is None:
        node.set("expressions", [_constructed(e, item, target.element) for item in list(node.expressions)])
        set_type(node, target)
        return node
    if target.name is S.STRUCT and not target.array and isinstance(node, (exp.Struct, exp.Tuple)):
        return _constructed_struct(e, node, target)
    kind = e.type(node)
    if kind.name is None and kind.array in (False, target.array):
        return cast(node, None, target)
    if target.nested or kind.nested:
        if kind.value != target:
            raise Refused(f"{kind} does not convert to {target}", node)
        return node
    changed = convert(node, kind, target.name) if target.name is not None else None
    if changed is None:
        raise Refused(f"{kind} does not convert to {target}; write a CAST", node)
    return changed


def _constructed_struct(e: Elaborator, node: exp.Expr, target: Type) -> exp.Expr:
    if len(node.expressions) != len(target.fields):
        raise Refused(f"the STRUCT has other fields than {target}", node)
    fields = []
    for item, (name, kind) in zip(list(node.expressions), target.fields, strict=True):
        value = item
        if isinstance(item, exp.PropertyEQ):
            if item.this.name.lower() != name:
                raise Refused(f"the STRUCT has other fields than {target}", item)
            value = item.expression
        fields.append(exp.PropertyEQ(this=exp.to_identifier(name), expression=_constructed(e, value, kind)))
    made = exp.Struct(expressions=fields)
    set_type(made, target)
    return made


def parameter_type(node: exp.Expr, parameter: Parameter) -> Type:
    """The type of a parameter where ``node`` reads it. Raises ``Refused`` where it must not be read so."""
    if parameter.wildcards and not _is_pattern(node) and not isinstance(node.parent, exp.Is):
        raise Refused(f"@{parameter.name} is a pattern with wildcards; it stands on the right of LIKE only", node)
    kind = declared_type(parameter)
    if kind.array and kind.name is not S.STRUCT and not parameter.ordered and not _ignores_order(node):
        raise Refused(
            f"@{parameter.name} is a set without order; declare it ordered: true, or read it in UNNEST without OFFSET",
            node,
        )
    return kind


def _is_pattern(node: exp.Expr) -> bool:
    return isinstance(node.parent, exp.Like) and node.arg_key == "expression"


def _ignores_order(node: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Unnest):
        return not parent.args.get("offset")
    return isinstance(parent, _WITHOUT_ORDER)
