"""Types of aggregates and windows."""

from __future__ import annotations

from functools import partial
from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import BOOL, Elaborator, rule
from queries.errors import Refused, written_name
from queries.numbers import real
from queries.typed import Type, set_source, set_type, type_of

S = SqlType
_UNSTABLE: Final = (exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)
_UNSTABLE_PAIRS: Final = (exp.Corr, exp.CovarPop, exp.CovarSamp)
_NUMBERING: Final = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
)
_NAVIGATING: Final = (exp.FirstValue, exp.LastValue, exp.NthValue)
_BITS: Final = (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
_AGGREGATES: Final = (
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, *_BITS, *_UNSTABLE,
    *_UNSTABLE_PAIRS,
)  # fmt: skip


@rule(exp.Count)
def _count(e: Elaborator, node: exp.Expr) -> Type:
    counted = node.this
    if node.expressions or counted is None:
        raise Refused("COUNT takes one expression", node)
    if isinstance(counted, exp.Distinct):
        e.scalar(_only(counted), "COUNT(DISTINCT)")
    elif not isinstance(counted, exp.Star):
        e.type(counted)
    return Type(S.INT64)


@rule(exp.CountIf)
def _count_if(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.BOOL)
    return Type(S.INT64)


@rule(exp.Sum)
def _sum(e: Elaborator, node: exp.Expr) -> Type:
    return Type(_number(e, node))


@rule(exp.Avg)
def _avg(e: Elaborator, node: exp.Expr) -> Type:
    source = _number(e, node)
    set_source(node, source)
    return Type(S.NUMERIC if source is S.NUMERIC else S.FLOAT64)


def _number(e: Elaborator, node: exp.Expr) -> SqlType:
    """The type of an aggregate's numbers, all of them or the distinct ones."""
    held = node.this
    if not isinstance(held, exp.Distinct):
        return e.expect(node, "this", S.INT64, S.NUMERIC, S.FLOAT64)
    kind = e.type(_only(held))
    if kind.name not in (S.INT64, S.NUMERIC, S.FLOAT64) or kind.array:
        raise Refused(f"{written_name(node)}(DISTINCT) takes numbers", node)
    set_type(held, kind)
    return kind.name


def _only(held: exp.Expr) -> exp.Expr:
    if len(held.expressions) != 1:
        raise Refused("DISTINCT takes one expression here", held)
    only: exp.Expr = held.expressions[0]
    return only


@rule(exp.Min, exp.Max)
def _extreme(e: Elaborator, node: exp.Expr) -> Type:
    kind = e.type(node.this)
    if kind.name is None or kind.nested:
        raise Refused("MIN and MAX take a typed value", node)
    return Type(kind.name)


@rule(exp.LogicalAnd, exp.LogicalOr)
def _logical(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.BOOL)
    return BOOL


@rule(*_BITS)
def _bits(e: Elaborator, node: exp.Expr) -> Type:
    if e.type(node.this).name is not S.INT64:
        raise Refused(f"{written_name(node)} takes INT64", node)
    return Type(S.INT64)


@rule(*_UNSTABLE)
def _spread(e: Elaborator, node: exp.Expr) -> Type:
    real(e, node)
    return _rounded(e, node)


@rule(*_UNSTABLE_PAIRS)
def _pair(e: Elaborator, node: exp.Expr) -> Type:
    real(e, node)
    real(e, node, "expression")
    return _rounded(e, node)


def _rounded(e: Elaborator, node: exp.Expr) -> Type:
    """The last digits depend on the order of the rows unless ROUND cuts them off."""
    parent = node.parent
    if isinstance(parent, exp.Window):
        parent = parent.parent
    if not isinstance(parent, exp.Round):
        e.deterministic = False
    return Type(S.FLOAT64)


@rule(exp.GroupConcat)
def _string_agg(e: Elaborator, node: exp.Expr) -> Type:
    order, separator = node.this, node.args.get("separator")
    limit = order.expression if isinstance(order, exp.Limit) else None
    if limit is not None:
        order = order.this
        if not (isinstance(limit, exp.Literal) and limit.name.isdigit()):
            raise Refused("the LIMIT of STRING_AGG is a written number", node)
    if not isinstance(order, exp.Order):
        raise Refused("STRING_AGG needs an ORDER BY inside, or it may answer differently each time", node)
    if separator is not None and not (isinstance(separator, exp.Literal) and separator.is_string):
        raise Refused("the separator of STRING_AGG is written text", node)
    held = order.this
    distinct = isinstance(held, exp.Distinct)
    if distinct:
        held = _only(held)
        if len(order.expressions) != 1 or order.expressions[0].this != held:
            raise Refused("STRING_AGG(DISTINCT x) takes ORDER BY x alone", node)
    if e.type(held).value != Type(S.STRING):
        raise Refused("STRING_AGG takes STRING", node)
    for item in list(order.expressions):
        ordering(e, item)
    e.ties.note(node)
    if separator is not None:
        e.type(separator)
    return Type(S.STRING)


@rule(exp.Window)
def _window(e: Elaborator, node: exp.Expr) -> Type:
    order, spec = node.args.get("order"), node.args.get("spec")
    function = _without_modifier(node)
    if not isinstance(function, (*_NUMBERING, *_NAVIGATING, *_AGGREGATES, exp.PercentileCont)):
        raise Refused("OVER is not accepted on this function", node)
    kind = e.type(function)
    if node.this is not function:
        set_type(node.this, kind)
    for item in node.args.get("partition_by") or []:
        part = e.type(item)
        if part.nested or isinstance(item, exp.Literal):
            raise Refused("PARTITION BY takes columns and expressions", item)
        if part.name is S.FLOAT64:
            raise Refused("PARTITION BY does not take FLOAT64", item)
    for item in list(order.expressions) if order is not None else ():
        ordering(e, item)
    e.ties.note(node)
    _check_order(node, function)
    if spec is not None:
        _frame(spec, order, numbered=isinstance(function, _NUMBERING))
    return kind


def _without_modifier(node: exp.Expr) -> exp.Expr:
    """The function under OVER. RESPECT NULLS says what holds anyway and goes; IGNORE NULLS stays."""
    function: exp.Expr = node.this
    if not isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
        return function
    inner: exp.Expr = function.this
    if not isinstance(inner, _NAVIGATING):
        raise Refused("IGNORE NULLS and RESPECT NULLS go with FIRST_VALUE, LAST_VALUE and NTH_VALUE", node)
    if isinstance(function, exp.RespectNulls):
        node.set("this", inner)
    return inner


def _check_order(node: exp.Expr, function: exp.Expr) -> None:
    order, spec = node.args.get("order"), node.args.get("spec")
    if isinstance(function, (*_NUMBERING, *_NAVIGATING)) and order is None:
        raise Refused("a ranking without ORDER BY may answer differently each time", node)
    distinct = isinstance(function.this, exp.Distinct)
    if (isinstance(function, exp.PercentileCont) or distinct) and (order is not None or spec is not None):
        raise Refused("here OVER takes PARTITION BY only", node)


@rule(*_NUMBERING, *_NAVIGATING)
def _ranking(e: Elaborator, node: exp.Expr) -> Type:
    _under_window(node)
    if isinstance(node, (exp.PercentRank, exp.CumeDist)):
        return Type(S.FLOAT64)
    if isinstance(node, (exp.RowNumber, exp.Rank, exp.DenseRank)):
        return Type(S.INT64)
    if isinstance(node, exp.Ntile):
        _written_number(node, node.this, least=1)
        e.expect(node, "this", S.INT64)
        return Type(S.INT64)
    kind = e.type(node.this)
    if kind.name is None:
        raise Refused("a window function takes a typed value", node)
    offset = node.args.get("offset")
    if offset is not None:
        _written_number(node, offset, least=1 if isinstance(node, exp.NthValue) else 0)
        e.type(offset)
    if node.args.get("default") is not None:
        e.expect(node, "default", kind.name)
    return kind.value


def _written_number(node: exp.Expr, value: exp.Expr, *, least: int) -> None:
    if not (isinstance(value, exp.Literal) and value.name.isdigit() and int(value.name) >= least):
        raise Refused(f"{written_name(node)} takes a written number of {least} or more", node)


@rule(exp.PercentileCont)
def _percentile(e: Elaborator, node: exp.Expr) -> Type:
    _under_window(node)
    share = node.expression
    if not (isinstance(share, exp.Literal) and not share.is_string and 0 <= float(share.name) <= 1):
        raise Refused("a percentile is a written number from 0 to 1", node)
    e.expect(node, "expression", S.FLOAT64)
    return Type(real(e, node))


def _under_window(node: exp.Expr) -> None:
    parent = node.parent
    if isinstance(parent, exp.IgnoreNulls):
        parent = parent.parent
    if not isinstance(parent, exp.Window):
        raise Refused(f"{written_name(node)} needs OVER", node)


def ordering(e: Elaborator, item: exp.Expr) -> None:
    """Type a term of an ORDER BY inside a function or window."""
    if e.ties.takes_out(item, partial(e.type, item.this)):
        return
    if isinstance(item.this, exp.Literal) or e.type(item.this).nested:
        raise Refused("ORDER BY inside takes columns and expressions", item)


def _frame(spec: exp.Expr, order: exp.Expr | None, *, numbered: bool) -> None:
    if order is None or spec.args.get("kind") not in ("ROWS", "RANGE"):
        raise Refused("a window frame needs ROWS or RANGE and an ORDER BY", spec)
    if numbered:
        raise Refused("a ranking takes no window frame", spec)
    for side in ("start", "end"):
        bound = spec.args.get(side)
        if bound is None or bound in ("UNBOUNDED", "CURRENT ROW"):
            continue
        number = isinstance(bound, exp.Literal) and not bound.is_string and bound.name.isdigit()
        if not number or (spec.args["kind"] == "RANGE" and not _is_integer(order)):
            raise Refused("a window frame is bounded by written numbers of ROWS, or of RANGE over one INT64", spec)
    _check_sides(spec)


def _is_integer(order: exp.Expr) -> bool:
    terms = order.expressions
    return len(terms) == 1 and type_of(terms[0].this).value == Type(S.INT64)


def _check_sides(spec: exp.Expr) -> None:
    """A frame ends where it starts or later."""
    places = []
    for side in ("start", "end"):
        bound, after = spec.args.get(side), spec.args.get(f"{side}_side") == "FOLLOWING"
        if isinstance(bound, exp.Literal):
            places.append(int(bound.name) if after else -int(bound.name))
        elif bound == "UNBOUNDED":
            places.append(2**63 if after else -(2**63))
        else:
            places.append(0)
    if places[0] > places[1] or places[0] == 2**63 or places[1] == -(2**63):
        raise Refused("a window frame ends before it starts", spec)
