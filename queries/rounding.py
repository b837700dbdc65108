"""Aggregates rounded to a declared step, half away from zero, in GoogleSQL that both engines compute alike.

A count becomes ``DIV(COUNT(…) + step / 2, step) * step``, a sum likewise in its own type, and a
mean the quotient of the rounded sum and the rounded count, NULL where that count is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from contract.minimum_group import GroupRule
from contract.schema import SqlType
from queries.typed import Type, cast, set_source, set_type, sql_type

_INT64: Final = Type(SqlType.INT64)


def round_aggregates(aggregates: Sequence[exp.Expr], kinds: Sequence[SqlType], rule: GroupRule) -> None:
    """Replace COUNT, SUM and AVG by themselves rounded, where ``rule`` declares the steps they need.

    ``kinds`` are the types of what each of them aggregates (INT64 for COUNT), in the same order.
    """
    for node, kind in zip(aggregates, kinds, strict=True):
        whole = _whole(node, kind, rule)
        if whole is not None:
            node.replace(whole)


def summed_type(node: exp.Expr) -> SqlType:
    """The type of the sum of what a typed COUNT, SUM or AVG aggregates."""
    return SqlType.INT64 if isinstance(node, exp.Count) else sql_type(node.this)


def _whole(node: exp.Expr, kind: SqlType, rule: GroupRule) -> exp.Expr | None:
    counts, sums = rule.round_counts_to, rule.round_sums_to
    if isinstance(node, exp.Count) and counts is not None:
        return _to_step(node.copy(), SqlType.INT64, counts)
    if isinstance(node, exp.Sum) and sums is not None:
        return _to_step(node.copy(), kind, sums)
    if isinstance(node, exp.Avg) and sums is not None and counts is not None:
        total = _aggregate(exp.Sum(this=node.this.copy()), kind)
        counted = _aggregate(exp.Count(this=node.this.copy(), big_int=True), SqlType.INT64)
        target = SqlType.NUMERIC if kind is SqlType.NUMERIC else SqlType.FLOAT64
        numerator = _as(_to_step(total, kind, sums), kind, target)
        denominator = _as(_to_step(counted, SqlType.INT64, counts), SqlType.INT64, target)
        quotient = exp.SafeDivide(this=numerator, expression=denominator)
        set_source(quotient, target)
        set_type(quotient, Type(target))
        return quotient
    return None


def _to_step(value: exp.Expr, kind: SqlType, step: int) -> exp.Expr:
    if kind is not SqlType.INT64:
        steps = _typed(exp.Div(this=value, expression=_number(step, kind), typed=False, safe=False), kind)
        whole = exp.Round(this=steps)
        set_type(whole, Type(kind))
        return _paren(_typed(exp.Mul(this=whole, expression=_number(step, kind)), kind))
    half = _typed(exp.Mul(this=_sign(value.copy()), expression=_number(step // 2, kind)), kind)
    shifted = _typed(exp.Add(this=value, expression=half), kind)
    steps = _typed(exp.IntDiv(this=_paren(shifted), expression=_number(step, kind)), kind)
    return _paren(_typed(exp.Mul(this=steps, expression=_number(step, kind)), kind))


def _number(value: int, kind: SqlType) -> exp.Expr:
    literal = exp.Literal.number(value)
    set_type(literal, Type(SqlType.INT64, literal=True))
    return _as(literal, SqlType.INT64, kind)


def _as(node: exp.Expr, source: SqlType, target: SqlType) -> exp.Expr:
    return node if source is target else cast(node, source, target)


def _aggregate(node: exp.Expr, kind: SqlType) -> exp.Expr:
    set_type(node, Type(kind))
    return node


def _sign(value: exp.Expr) -> exp.Expr:
    return _typed(exp.Sign(this=value), SqlType.INT64)


def _paren(node: exp.Expr) -> exp.Paren:
    paren = exp.Paren(this=node)
    set_type(paren, Type(sql_type(node)))
    return paren


def _typed(node: exp.Expr, kind: SqlType) -> exp.Expr:
    set_type(node, Type(kind))
    set_source(node, kind)
    return node
