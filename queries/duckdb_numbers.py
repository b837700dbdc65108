"""Arithmetic and functions of numbers for DuckDB."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.duckdb_dialect import call, rule, typed
from queries.typed import sql_type

S = SqlType
_KEEPS: Final = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Sum, exp.Avg)
_PASSES: Final = (exp.Paren, exp.Alias, exp.Round, exp.Coalesce)


def finite(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    """``value``, checked for overflow unless an infinity in ``node``'s place is found later.

    GoogleSQL fails where a FLOAT64 overflows, DuckDB goes on with an infinity. Sums, products,
    dividends and rounding keep it non-finite, and the engine checks the columns it returns; in
    a comparison, a divisor or an inner query it would go unseen.
    """
    child, outer = node, node.parent
    while outer is not None:
        if isinstance(outer, exp.Div) and child.arg_key == "this" or isinstance(outer, _KEEPS):
            return value
        branch = isinstance(outer, (exp.If, exp.Case)) and child.arg_key != "this"
        if isinstance(outer, exp.Select) and outer.parent is None and child.arg_key == "expressions":
            return value
        if not branch and not isinstance(outer, _PASSES):
            break
        child, outer = outer, outer.parent
    return call("gsql_finite", value)


@rule(exp.Add, exp.Sub, exp.Mul, exp.Neg)
def _arithmetic(node: exp.Expr) -> exp.Expr:
    kind = sql_type(node)
    if kind is S.FLOAT64:
        return finite(node, node)
    if kind is S.NUMERIC and isinstance(node, exp.Mul):
        return call("gsql_mul_numeric", node.this, node.expression)
    return typed(node, S.INT64) if isinstance(node, exp.Neg) and kind is S.INT64 else node


@rule(exp.Div)
def _div(node: exp.Expr) -> exp.Expr:
    left, right = node.this, node.expression
    if sql_type(node) is S.NUMERIC:
        return call("gsql_div_numeric", left, right)
    quotient = exp.Paren(this=exp.Div(this=_operand(left), expression=_operand(right), typed=False, safe=False))
    return finite(node, quotient)


@rule(exp.SafeDivide)
def _safe_divide(node: exp.Expr) -> exp.Expr:
    kind = "numeric" if sql_type(node) is S.NUMERIC else "float64"
    return call(f"gsql_safe_div_{kind}", node.this, node.expression)


@rule(exp.IntDiv)
def _int_div(node: exp.Expr) -> exp.Expr:
    name = "gsql_whole_div_numeric" if sql_type(node) is S.NUMERIC else "gsql_div"
    return call(name, node.this.unnest(), node.expression.unnest())


@rule(exp.Mod)
def _mod(node: exp.Expr) -> exp.Expr:
    left, right = node.this.unnest(), node.expression.unnest()
    return call("gsql_mod_numeric" if sql_type(node) is S.NUMERIC else "gsql_mod", left, right)


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node


@rule(exp.BitwiseXor)
def _xor(node: exp.Expr) -> exp.Expr:
    return call("xor", node.this, node.expression)


@rule(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot)
def _bits(node: exp.Expr) -> exp.Expr:
    # The engines bind these operators more and less tightly than one another.
    for arg in ("this", "expression"):
        if node.args.get(arg) is not None:
            node.set(arg, exp.Paren(this=node.args[arg]))
    return exp.Paren(this=node)


@rule(exp.Sign)
def _sign(node: exp.Expr) -> exp.Expr:
    return typed(call("sign", node.this), sql_type(node))


@rule(exp.Abs)
def _abs(node: exp.Expr) -> exp.Expr:
    return call("abs", node.this)


@rule(exp.Ceil, exp.Floor)
def _whole(node: exp.Expr) -> exp.Expr:
    return typed(call(node.key, node.this), sql_type(node))


@rule(exp.Round, exp.Trunc)
def _round(node: exp.Expr) -> exp.Expr:
    digits = node.args.get("decimals")
    count = 0 if digits is None else int(_digits(digits))
    if count == 0 and isinstance(node, exp.Trunc):
        return typed(call("trunc", node.this), sql_type(node))
    if count > 0 and sql_type(node) is S.FLOAT64:
        return call(f"gsql_{node.key}_float", node.this, count)
    return typed(call(node.key, node.this, count), sql_type(node))


def _digits(node: exp.Expr) -> str:
    """The digits of a written number, before or after translation."""
    literal = node.this if isinstance(node, exp.Cast) else node
    return literal.name


@rule(exp.Exp)
def _exp(node: exp.Expr) -> exp.Expr:
    return finite(node, call("exp", node.this))


@rule(exp.Pow)
def _power(node: exp.Expr) -> exp.Expr:
    return finite(node, call("pow", node.this, node.expression))
