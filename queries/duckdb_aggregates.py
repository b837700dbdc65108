"""Aggregates and windows for DuckDB: exact sums, stable floats, BIGINT where DuckDB widens."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.duckdb_dialect import call, rule, typed
from queries.duckdb_numbers import finite
from queries.typed import source_type, sql_type

S = SqlType
_FINISH: Final = "gsql_finish"
_SPREAD: Final[dict[type[exp.Expr], str]] = {
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}


def _finished(node: exp.Expr, core: exp.Expr, how: str) -> exp.Expr:
    """The aggregate as an expression; under OVER the window is finished instead."""
    if isinstance(node.parent, exp.Window):
        core.meta[_FINISH] = how
        return core
    return _finish(node, core, how, None)


def _finish(node: exp.Expr, core: exp.Expr, how: str, window: exp.Window | None) -> exp.Expr:
    over = core if window is None else window
    match how:
        case "int":
            return typed(over, S.INT64)
        case "numeric":
            return typed(over, S.NUMERIC)
        case "float":
            return finite(node, over)
        case "avg_numeric":
            counted = call("count", core.expressions[0].copy())
            if window is not None:
                counter = window.copy()
                counter.set("this", counted)
                return call("gsql_avg_numeric", over, counter)
            return call("gsql_avg_numeric", over, counted)
    return over


@rule(exp.Window)
def _window(node: exp.Expr) -> exp.Expr:
    how = node.this.meta.get(_FINISH)
    if how is None or not isinstance(node, exp.Window):
        return node
    return _finish(node, node.this, how, node)


@rule(exp.CountIf)
def _count_if(node: exp.Expr) -> exp.Expr:
    return call("count", exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))]))


@rule(exp.Sum)
def _sum(node: exp.Expr) -> exp.Expr:
    kind = sql_type(node)
    if kind is S.FLOAT64:
        # A plain sum depends on the order in which threads deliver rows.
        return _finished(node, call("fsum", node.this), "float")
    return _finished(node, call("sum", node.this), "int" if kind is S.INT64 else "numeric")


@rule(exp.Avg)
def _avg(node: exp.Expr) -> exp.Expr:
    match source_type(node):
        case S.NUMERIC:
            return _finished(node, call("sum", node.this), "avg_numeric")
        case S.FLOAT64:
            return _finished(node, call("favg", node.this), "float")
    return call("avg", node.this)


@rule(exp.LogicalAnd, exp.LogicalOr)
def _logical(node: exp.Expr) -> exp.Expr:
    return call("bool_and" if isinstance(node, exp.LogicalAnd) else "bool_or", node.this)


@rule(*_SPREAD)
def _spread(node: exp.Expr) -> exp.Expr:
    return _finished(node, call(_SPREAD[type(node)], node.this), "float")


@rule(exp.GroupConcat)
def _string_agg(node: exp.Expr) -> exp.Expr:
    order, limit = node.this, None
    separator = node.args.get("separator") or exp.Literal.string(",")
    if isinstance(order, exp.Limit):
        order, limit = order.this, order.expression
        value = order.this.expressions[0] if isinstance(order.this, exp.Distinct) else order.this
        # Only texts count towards the limit.
        present = exp.Where(this=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())))
        return call(
            "array_to_string",
            call("list_slice", exp.Filter(this=call("list", order), expression=present), 1, limit),
            separator,
        )
    return call("string_agg", order.this, exp.Order(this=separator, expressions=order.expressions))


@rule(exp.PercentileCont)
def _percentile(node: exp.Expr) -> exp.Expr:
    return call("quantile_cont", node.this, node.expression)
