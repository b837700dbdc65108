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
from queries.duckdb_types import TYPES, duckdb_type
from queries.masks import MASK_HASH, MASK_TRUNCATE
from queries.names import output_items
from queries.typed import source_type, sql_type, type_of

S = SqlType
_KEEPS: Final = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Sum, exp.Avg)
_PASSES: Final = (exp.Paren, exp.Alias, exp.Round, exp.Coalesce)
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
    if not isinstance(array.this, exp.Parameter):
        return call("gsql_in_array", node.this, array)
    # No argument holds a NULL element. A NULL array holds nothing, where DuckDB would answer NULL.
    return call("list_contains", call("coalesce", array, exp.Array()), node.this)


@rule(exp.Like)
def _like(node: exp.Expr) -> exp.Expr:
    test = exp.Escape(this=exp.Like(this=node.this, expression=node.expression), expression=exp.Literal.string("\\"))
    return exp.Paren(this=exp.Not(this=exp.Paren(this=test)) if node.args.get("negate") else test)


@rule(exp.Add, exp.Sub, exp.Mul, exp.Neg)
def _arithmetic(node: exp.Expr) -> exp.Expr:
    kind = sql_type(node)
    if kind is S.FLOAT64:
        return finite(node, node)
    if kind is S.NUMERIC and isinstance(node, exp.Mul):
        return typed(node, S.NUMERIC)
    return typed(node, S.INT64) if isinstance(node, exp.Neg) and kind is S.INT64 else node


@rule(exp.Div, exp.SafeDivide)
def _div(node: exp.Expr) -> exp.Expr:
    left, right = node.this, node.expression
    if isinstance(node, exp.SafeDivide):
        right = call("nullif", right, 0)
    if sql_type(node) is S.NUMERIC:
        return call("gsql_div_numeric", left, right)
    quotient = exp.Paren(this=exp.Div(this=_operand(left), expression=_operand(right), typed=False, safe=False))
    return finite(node, quotient)


@rule(exp.IntDiv)
def _int_div(node: exp.Expr) -> exp.Expr:
    return call("gsql_div", node.this, node.expression)


@rule(exp.Mod)
def _mod(node: exp.Expr) -> exp.Expr:
    return call("gsql_mod", node.this.unnest(), node.expression.unnest())


def finite(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    """``value``, checked for overflow unless an infinity in ``node``'s place is found later.

    GoogleSQL fails where a FLOAT64 overflows, DuckDB goes on with an infinity. Sums, products,
    dividends and rounding keep it non-finite, and the engine checks the columns it returns; in
    a comparison, a divisor or an inner query it would go unseen.
    """
    child, outer = node, node.parent
    while outer is not None:
        if isinstance(outer, (exp.Div, exp.SafeDivide)) and child.arg_key == "this" or isinstance(outer, _KEEPS):
            return value
        branch = isinstance(outer, (exp.If, exp.Case)) and child.arg_key != "this"
        if isinstance(outer, exp.Select) and outer.parent is None and child.arg_key == "expressions":
            return value
        if not branch and not isinstance(outer, _PASSES):
            break
        child, outer = outer, outer.parent
    return call("gsql_finite", value)


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node


@rule(exp.Cast)
def _cast(node: exp.Expr) -> exp.Expr:
    if type_of(node).nested:
        return cast(node.this, duckdb_type(type_of(node)))
    target, source, value = sql_type(node), source_type(node), node.this
    if target is S.TIMESTAMP and source is S.STRING or source in (None, target):
        return typed(value, target)
    if (source, target) == (S.FLOAT64, S.INT64):
        return typed(call("round", value), S.INT64)
    if (source, target) == (S.NUMERIC, S.STRING):
        return call("gsql_numeric_text", value)
    if target is S.TIMESTAMP:
        return local(typed(value, S.DATETIME), "UTC")
    if source is S.TIMESTAMP:
        return typed(local(value, "UTC"), target)
    return typed(value, target)


@rule(exp.If)
def _if(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Case) and node.arg_key == "ifs":
        return node
    branch = exp.If(this=node.this, true=node.args["true"])
    return exp.Case(ifs=[branch], default=node.args["false"])


@rule(exp.Greatest, exp.Least)
def _extreme_of(node: exp.Expr) -> exp.Expr:
    values = [node.this, *node.expressions]
    absent = exp.or_(*(exp.Is(this=value.copy(), expression=exp.Null()) for value in values))
    name = "greatest" if isinstance(node, exp.Greatest) else "least"
    return exp.Case(ifs=[exp.If(this=absent, true=exp.Null())], default=call(name, *values))


@rule(exp.Concat)
def _concat(node: exp.Expr) -> exp.Expr:
    out = node.expressions[0]
    for item in node.expressions[1:]:
        out = exp.DPipe(this=out, expression=item)
    return exp.Paren(this=out)


@rule(exp.Length)
def _length(node: exp.Expr) -> exp.Expr:
    return call("length", node.this)


@rule(exp.ByteLength)
def _byte_length(node: exp.Expr) -> exp.Expr:
    return call("strlen", node.this)


@rule(exp.StartsWith)
def _starts_with(node: exp.Expr) -> exp.Expr:
    return call("starts_with", node.this, node.expression)


@rule(exp.EndsWith)
def _ends_with(node: exp.Expr) -> exp.Expr:
    return call("ends_with", node.this, node.expression)


@rule(exp.StrPosition)
def _position(node: exp.Expr) -> exp.Expr:
    return call("strpos", node.this, node.args["substr"])


@rule(exp.Replace)
def _replace(node: exp.Expr) -> exp.Expr:
    return call("replace", node.this, node.expression, node.args["replacement"])


@rule(exp.Trim)
def _trim(node: exp.Expr) -> exp.Expr:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position"), "trim")
    characters = node.args.get("expression")
    return call(f"gsql_{side}", node.this) if characters is None else call(side, node.this, characters)


@rule(exp.Substring)
def _substring(node: exp.Expr) -> exp.Expr:
    start, length = node.args["start"], node.args.get("length")
    return call("gsql_substr", node.this, start) if length is None else call("gsql_substr_n", node.this, start, length)


@rule(exp.Left, exp.Right)
def _edge(node: exp.Expr) -> exp.Expr:
    return call("gsql_left" if isinstance(node, exp.Left) else "gsql_right", node.this, node.expression)


@rule(exp.Sign)
def _sign(node: exp.Expr) -> exp.Expr:
    return typed(call("sign", node.this), sql_type(node))


@rule(exp.Abs)
def _abs(node: exp.Expr) -> exp.Expr:
    return call("abs", node.this)


@rule(exp.Ceil, exp.Floor, exp.Trunc)
def _whole(node: exp.Expr) -> exp.Expr:
    return typed(call(node.key, node.this), sql_type(node))


@rule(exp.Round)
def _round(node: exp.Expr) -> exp.Expr:
    digits = node.args.get("decimals")
    return typed(call("round", node.this, int(_number(digits)) if digits is not None else 0), sql_type(node))


@rule(exp.Sqrt, exp.Ln)
def _real(node: exp.Expr) -> exp.Expr:
    return call(node.key, node.this)


@rule(exp.Log)
def _log10(node: exp.Expr) -> exp.Expr:
    return call("log10", node.expression)


@rule(exp.Exp)
def _exp(node: exp.Expr) -> exp.Expr:
    return finite(node, call("exp", node.this))


@rule(exp.Pow)
def _power(node: exp.Expr) -> exp.Expr:
    return finite(node, call("pow", node.this, node.expression))


@rule(exp.Anonymous)
def _mask(node: exp.Expr) -> exp.Expr:
    if node.name == MASK_HASH:
        return call("gsql_mask_text" if source_type(node) is S.STRING else "gsql_mask_int", *node.expressions)
    if node.name == MASK_TRUNCATE:
        return call("gsql_mask_short", *node.expressions)
    return node


def _number(node: exp.Expr) -> str:
    """The digits of a written number, before or after translation."""
    literal = node.this if isinstance(node, exp.Cast) else node
    return literal.name


def local(value: exp.Expr, zone: str) -> exp.Expr:
    return exp.Paren(this=exp.AtTimeZone(this=value, zone=exp.Literal.string(zone)))
