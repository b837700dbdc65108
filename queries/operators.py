"""Types of columns, literals, operators and conditionals."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import BOOL, Elaborator, rule
from queries.errors import Refused, written_name
from queries.nested import parameter_type
from queries.typed import Type, common, convert, set_source, set_type

S = SqlType
_INT64: Final = range(-(2**63), 2**63)


@rule(exp.Column)
def _column(e: Elaborator, node: exp.Expr) -> Type:
    if not isinstance(node, exp.Column):
        raise Refused("not a column", node)
    return e.column(node)


@rule(exp.Parameter)
def _parameter(e: Elaborator, node: exp.Expr) -> Type:
    return parameter_type(node, e.parameter(node))


@rule(exp.Literal)
def _literal(e: Elaborator, node: exp.Expr) -> Type:
    if node.is_string:
        if "\x00" in node.name:
            raise Refused("text must not hold a NUL character", node)
        return Type(S.STRING, literal=True)
    if node.name.lstrip("-").isdigit():
        if int(node.name) not in _INT64:
            raise Refused("the number is beyond INT64; write NUMERIC '…'", node)
        return Type(S.INT64, literal=True)
    return Type(S.FLOAT64, literal=True)


@rule(exp.Boolean)
def _boolean(e: Elaborator, node: exp.Expr) -> Type:
    return BOOL


@rule(exp.Null)
def _null(e: Elaborator, node: exp.Expr) -> Type:
    return Type(None)


@rule(exp.Paren)
def _paren(e: Elaborator, node: exp.Expr) -> Type:
    return e.type(node.this)


@rule(exp.ByteString)
def _bytes(e: Elaborator, node: exp.Expr) -> Type:
    return Type(S.BYTES)


@rule(exp.Neg)
def _neg(e: Elaborator, node: exp.Expr) -> Type:
    _check_nulls(e, node, node.this)
    return Type(e.expect(node, "this", S.INT64, S.NUMERIC, S.FLOAT64))


@rule(exp.Subquery)
def _subquery(e: Elaborator, node: exp.Expr) -> Type:
    return e.query_type(node.this)


@rule(exp.Exists)
def _exists(e: Elaborator, node: exp.Expr) -> Type:
    return BOOL


@rule(exp.And, exp.Or)
def _connector(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.BOOL)
    e.expect(node, "expression", S.BOOL)
    return BOOL


@rule(exp.Not)
def _not(e: Elaborator, node: exp.Expr) -> Type:
    _check_nulls(e, node, node.this)
    e.expect(node, "this", S.BOOL)
    return BOOL


def _check_nulls(e: Elaborator, node: exp.Expr, *operands: exp.Expr) -> None:
    """GoogleSQL takes no written NULL as an operand."""
    if any(e.type(operand).name is None for operand in operands):
        raise Refused(f"{written_name(node)} takes no written NULL; a test for it is IS NULL", node)


@rule(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
def _comparison(e: Elaborator, node: exp.Expr) -> Type:
    _check_nulls(e, node, node.this, node.expression)
    e.unify(node, [node.this, node.expression], node)
    return BOOL


@rule(exp.NullSafeEQ, exp.NullSafeNEQ)
def _distinction(e: Elaborator, node: exp.Expr) -> Type:
    e.unify(node, [node.this, node.expression], node)
    return BOOL


@rule(exp.Between)
def _between(e: Elaborator, node: exp.Expr) -> Type:
    e.unify(node, [node.this, node.args["low"], node.args["high"]], node)
    return BOOL


@rule(exp.Is)
def _is(e: Elaborator, node: exp.Expr) -> Type:
    if isinstance(node.expression, exp.Boolean):
        e.expect(node, "this", S.BOOL)
    elif isinstance(node.expression, exp.Null):
        e.type(node.this)
    else:
        raise Refused("IS takes NULL, TRUE or FALSE", node)
    e.type(node.expression)
    return BOOL


@rule(exp.In)
def _in(e: Elaborator, node: exp.Expr) -> Type:
    unnest, query = node.args.get("unnest"), node.args.get("query")
    if unnest is not None:
        _in_array(e, node, unnest)
    elif query is not None:
        kind = e.type(query)
        if kind.name is None or kind.nested:
            raise Refused("IN takes a query of one typed column", node)
        e.expect(node, "this", kind.name)
    elif node.expressions:
        e.unify(node, [node.this, *node.expressions], node)
    else:
        raise Refused("IN takes a list, a query or UNNEST of an array", node)
    return BOOL


def _in_array(e: Elaborator, node: exp.Expr, unnest: exp.Expr) -> None:
    element = e.array(unnest, unnest.expressions[0])
    if element.nested or element.name is None:
        raise Refused("IN UNNEST takes an array of values, not of STRUCT", node)
    set_type(unnest, element.repeated)
    e.expect(node, "this", element.name)


@rule(exp.Like)
def _like(e: Elaborator, node: exp.Expr) -> Type:
    _check_nulls(e, node, node.this)
    e.expect(node, "this", S.STRING)
    pattern = node.expression
    if isinstance(pattern, exp.Parameter):
        held = e.parameter(pattern)
        if not held.values and not held.wildcards:
            raise Refused(
                f"@{held.name} is no LIKE pattern: its % would find every row. Use STARTS_WITH or STRPOS, "
                "or declare it wildcards: true",
                pattern,
            )
    elif not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Refused("LIKE takes a written pattern; use STARTS_WITH or STRPOS for values", pattern)
    elif (len(pattern.name) - len(pattern.name.rstrip("\\"))) % 2:
        raise Refused("a LIKE pattern does not end with a backslash", pattern)
    e.expect(node, "expression", S.STRING)
    return BOOL


@rule(exp.Case)
def _case(e: Elaborator, node: exp.Expr) -> Type:
    branches = node.args["ifs"]
    if node.this is not None:
        e.unify(node, [node.this, *(branch.this for branch in branches)], node)
    else:
        for branch in branches:
            e.expect(branch, "this", S.BOOL)
    results = [branch.args["true"] for branch in branches]
    default = node.args.get("default")
    return e.same(node, results if default is None else [*results, default], node)


@rule(exp.If)
def _if(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.BOOL)
    if node.args.get("false") is None:
        raise Refused("IF takes three arguments", node)
    return e.same(node, e.values(node, "true false"), node)


@rule(exp.Coalesce)
def _coalesce(e: Elaborator, node: exp.Expr) -> Type:
    return e.same(node, e.values(node, "this expressions"), node)


@rule(exp.Greatest, exp.Least)
def _extreme_of(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.unify(node, e.values(node, "this expressions"), node))


@rule(exp.Nullif)
def _nullif(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.unify(node, e.values(node, "this expression"), node))


@rule(exp.Add, exp.Sub, exp.Mul)
def _arithmetic(e: Elaborator, node: exp.Expr) -> Type:
    _check_nulls(e, node, node.this, node.expression)
    target = e.unify(node, [node.this, node.expression], node)
    if target not in (S.INT64, S.NUMERIC, S.FLOAT64):
        hint = "; use DATE_ADD, DATE_SUB or DATE_DIFF" if target in (S.DATE, S.TIMESTAMP) else ""
        raise Refused(f"arithmetic takes numbers{hint}", node)
    return Type(target)


@rule(exp.Div, exp.SafeDivide)
def _division(e: Elaborator, node: exp.Expr) -> Type:
    if isinstance(node, exp.Div):
        _check_nulls(e, node, node.this, node.expression)
    kinds = [e.type(node.this), e.type(node.expression)]
    target = common(kinds, node)
    if target not in (S.INT64, S.NUMERIC, S.FLOAT64):
        raise Refused("division takes numbers", node)
    target = S.FLOAT64 if target is S.INT64 else target
    for arg, kind in zip(("this", "expression"), kinds, strict=True):
        node.set(arg, convert(node.args[arg], kind, target))
    set_source(node, target)
    return Type(target)


@rule(exp.IntDiv, exp.Mod)
def _integer_division(e: Elaborator, node: exp.Expr) -> Type:
    target = e.unify(node, [node.this, node.expression], node)
    if target not in (S.INT64, S.NUMERIC):
        raise Refused(f"{written_name(node)} takes INT64 or NUMERIC", node)
    return Type(target)
