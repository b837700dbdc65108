"""Types of functions of text and numbers, aggregates and windows."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import BOOL, Elaborator, rule
from queries.errors import Refused
from queries.typed import Type, is_number, set_source

S = SqlType
_MAX_DIGITS: Final = 9
_UNSTABLE: Final = (exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)
_RANKING: Final = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue,
    exp.LastValue,
)  # fmt: skip
_AGGREGATES: Final = (
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, *_UNSTABLE,
)  # fmt: skip


@rule(exp.Lower, exp.Upper)
def _text(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.STRING))


@rule(exp.Concat)
def _concat(e: Elaborator, node: exp.Expr) -> Type:
    if e.unify(node, node.expressions, node) is not S.STRING:
        raise Refused("CONCAT takes STRING; write CAST(… AS STRING)", node)
    return Type(S.STRING)


@rule(exp.DPipe)
def _pipe(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    return Type(e.expect(node, "expression", S.STRING))


@rule(exp.Length, exp.ByteLength)
def _length(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    return Type(S.INT64)


@rule(exp.StartsWith, exp.EndsWith)
def _affix(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    e.expect(node, "expression", S.STRING)
    return BOOL


@rule(exp.StrPosition)
def _position(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    e.expect(node, "substr", S.STRING)
    return Type(S.INT64)


@rule(exp.Replace)
def _replace(e: Elaborator, node: exp.Expr) -> Type:
    for arg in ("this", "expression", "replacement"):
        e.expect(node, arg, S.STRING)
    return Type(S.STRING)


@rule(exp.Trim)
def _trim(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    if node.args.get("expression") is not None:
        e.expect(node, "expression", S.STRING)
    return Type(S.STRING)


@rule(exp.Substring)
def _substring(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    for arg in ("start", "length"):
        if node.args.get(arg) is not None:
            e.expect(node, arg, S.INT64)
    return Type(S.STRING)


@rule(exp.Left, exp.Right)
def _edge(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.STRING)
    e.expect(node, "expression", S.INT64)
    return Type(S.STRING)


@rule(exp.Abs, exp.Sign)
def _same_number(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.INT64, S.NUMERIC, S.FLOAT64))


@rule(exp.Ceil, exp.Floor, exp.Trunc)
def _whole(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.NUMERIC, S.FLOAT64) if _holds_numeric(e, node) else _float(e, node))


@rule(exp.Round)
def _round(e: Elaborator, node: exp.Expr) -> Type:
    digits = node.args.get("decimals")
    if digits is not None:
        written = isinstance(digits, exp.Literal) and not digits.is_string and digits.name.isdigit()
        if not written or int(digits.name) > _MAX_DIGITS:
            raise Refused(f"ROUND takes a written number of digits from 0 to {_MAX_DIGITS}", node)
    return _whole(e, node)


@rule(exp.Sqrt, exp.Exp, exp.Ln)
def _real(e: Elaborator, node: exp.Expr) -> Type:
    return Type(_float(e, node))


@rule(exp.Log)
def _log10(e: Elaborator, node: exp.Expr) -> Type:
    if not (isinstance(node.this, exp.Literal) and node.this.name == "10"):
        raise Refused("of logarithms LN and LOG10 are accepted", node)
    return Type(_float(e, node, "expression"))


@rule(exp.Pow)
def _power(e: Elaborator, node: exp.Expr) -> Type:
    _float(e, node, "this")
    return Type(_float(e, node, "expression"))


@rule(exp.Count)
def _count(e: Elaborator, node: exp.Expr) -> Type:
    counted = node.this
    if node.expressions:
        raise Refused("COUNT takes one expression", node)
    if isinstance(counted, exp.Distinct):
        if len(counted.expressions) != 1:
            raise Refused("COUNT(DISTINCT) takes one expression", node)
        counted = counted.expressions[0]
    if isinstance(node.this, exp.Distinct):
        e.scalar(counted, "COUNT(DISTINCT)")
    elif not isinstance(counted, exp.Star):
        e.type(counted)
    return Type(S.INT64)


@rule(exp.CountIf)
def _count_if(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.BOOL)
    return Type(S.INT64)


@rule(exp.Sum)
def _sum(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.INT64, S.NUMERIC, S.FLOAT64))


@rule(exp.Avg)
def _avg(e: Elaborator, node: exp.Expr) -> Type:
    source = e.expect(node, "this", S.INT64, S.NUMERIC, S.FLOAT64)
    set_source(node, source)
    return Type(S.NUMERIC if source is S.NUMERIC else S.FLOAT64)


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


@rule(*_UNSTABLE)
def _spread(e: Elaborator, node: exp.Expr) -> Type:
    _float(e, node)
    # The last digits depend on the order of the rows unless ROUND cuts them off.
    if not _is_rounded(node):
        e.deterministic = False
    return Type(S.FLOAT64)


@rule(exp.GroupConcat)
def _string_agg(e: Elaborator, node: exp.Expr) -> Type:
    order, separator = node.this, node.args.get("separator")
    if not isinstance(order, exp.Order) or not order.expressions:
        raise Refused("STRING_AGG needs an ORDER BY inside, or it may answer differently each time", node)
    if separator is not None and not (isinstance(separator, exp.Literal) and separator.is_string):
        raise Refused("the separator of STRING_AGG is written text", node)
    held = order.this
    if isinstance(held, exp.Distinct):
        held = held.expressions[0] if len(held.expressions) == 1 else None
    if held is None or e.type(held).value != Type(S.STRING):
        raise Refused("STRING_AGG takes STRING", node)
    for item in order.expressions:
        _ordering(e, item)
    if separator is not None:
        e.type(separator)
    return Type(S.STRING)


@rule(exp.Window)
def _window(e: Elaborator, node: exp.Expr) -> Type:
    function, order, spec = node.this, node.args.get("order"), node.args.get("spec")
    if not isinstance(function, (*_RANKING, *_AGGREGATES, exp.PercentileCont)):
        raise Refused("OVER is not accepted on this function", node)
    kind = e.type(function)
    for item in node.args.get("partition_by") or []:
        if e.type(item).nested or isinstance(item, exp.Literal):
            raise Refused("PARTITION BY takes columns and expressions", item)
    for item in order.expressions if order is not None else ():
        _ordering(e, item)
    if isinstance(function, _RANKING) and order is None:
        raise Refused("a ranking without ORDER BY may answer differently each time", node)
    distinct = isinstance(function, exp.Count) and isinstance(function.this, exp.Distinct)
    if (isinstance(function, exp.PercentileCont) or distinct) and (order is not None or spec is not None):
        raise Refused("here OVER takes PARTITION BY only", node)
    if spec is not None:
        _frame(spec, ordered=order is not None)
    return kind


@rule(*_RANKING)
def _ranking(e: Elaborator, node: exp.Expr) -> Type:
    _under_window(node)
    if isinstance(node, (exp.PercentRank, exp.CumeDist)):
        return Type(S.FLOAT64)
    if isinstance(node, (exp.RowNumber, exp.Rank, exp.DenseRank)):
        return Type(S.INT64)
    if isinstance(node, exp.Ntile):
        e.expect(node, "this", S.INT64)
        return Type(S.INT64)
    kind = e.type(node.this)
    if kind.name is None:
        raise Refused("a window function takes a typed value", node)
    if node.args.get("offset") is not None:
        offset = node.args["offset"]
        if not (isinstance(offset, exp.Literal) and offset.name.isdigit()):
            raise Refused("the offset of LAG and LEAD is a written number", node)
        e.type(offset)
    if node.args.get("default") is not None:
        e.expect(node, "default", kind.name)
    return kind.value


@rule(exp.PercentileCont)
def _percentile(e: Elaborator, node: exp.Expr) -> Type:
    _under_window(node)
    share = node.expression
    if not (isinstance(share, exp.Literal) and not share.is_string and 0 <= float(share.name) <= 1):
        raise Refused("a percentile is a written number from 0 to 1", node)
    e.expect(node, "expression", S.FLOAT64)
    if _holds_numeric(e, node):
        raise Refused("PERCENTILE_CONT takes FLOAT64; write CAST(… AS FLOAT64)", node)
    return Type(_float(e, node))


def _under_window(node: exp.Expr) -> None:
    if not isinstance(node.parent, exp.Window):
        raise Refused(f"{node.meta.get('bigquery_name', node.key.upper())} needs OVER", node)


def _ordering(e: Elaborator, item: exp.Expr) -> None:
    if isinstance(item.this, exp.Literal) or e.type(item.this).nested:
        raise Refused("ORDER BY inside takes columns and expressions", item)


def _frame(spec: exp.Expr, *, ordered: bool) -> None:
    if not ordered or spec.args.get("kind") not in ("ROWS", "RANGE"):
        raise Refused("a window frame needs ROWS or RANGE and an ORDER BY", spec)
    for side in ("start", "end"):
        bound = spec.args.get(side)
        if bound is None or bound in ("UNBOUNDED", "CURRENT ROW"):
            continue
        number = isinstance(bound, exp.Literal) and not bound.is_string and bound.name.isdigit()
        if not number or spec.args["kind"] != "ROWS":
            raise Refused("a window frame is bounded by written numbers of ROWS", spec)


def _is_rounded(node: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Window):
        parent = parent.parent
    return isinstance(parent, exp.Round)


def _holds_numeric(e: Elaborator, node: exp.Expr, arg: str = "this") -> bool:
    return e.type(node.args[arg]).name is S.NUMERIC


def _float(e: Elaborator, node: exp.Expr, arg: str = "this") -> SqlType:
    """FLOAT64 from FLOAT64 or INT64. A NUMERIC would answer exactly elsewhere, so it is refused."""
    kind = e.type(node.args[arg])
    if kind.name is S.NUMERIC or (kind.name is not None and not is_number(kind.name)):
        name = node.meta.get("bigquery_name", node.key.upper())
        raise Refused(f"{name} takes FLOAT64, not {kind}; write CAST(… AS FLOAT64)", node)
    return e.expect(node, arg, S.FLOAT64)
