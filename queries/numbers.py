"""Types of functions of numbers. A function that would answer a NUMERIC exactly elsewhere does not take one here."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import Elaborator, rule
from queries.errors import Refused, written_name
from queries.typed import Type, is_number

S = SqlType
_DIGITS: Final = range(-9, 10)
_BITS: Final = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)


@rule(exp.Abs, exp.Sign)
def _same_number(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.INT64, S.NUMERIC, S.FLOAT64))


@rule(exp.Ceil, exp.Floor)
def _whole(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.NUMERIC, S.FLOAT64) if _holds_numeric(e, node) else real(e, node))


@rule(exp.Round, exp.Trunc)
def _round(e: Elaborator, node: exp.Expr) -> Type:
    digits = node.args.get("decimals")
    if digits is not None:
        written = isinstance(digits, exp.Literal) and not digits.is_string and digits.name.lstrip("-").isdigit()
        if not written or int(digits.name) not in _DIGITS:
            raise Refused(f"{written_name(node)} takes a written number of digits from -9 to 9", node)
    return _whole(e, node)


@rule(exp.Exp)
def _exp(e: Elaborator, node: exp.Expr) -> Type:
    check_rounded(node)
    return Type(real(e, node))


@rule(exp.Pow)
def _power(e: Elaborator, node: exp.Expr) -> Type:
    check_rounded(node)
    real(e, node, "this")
    return Type(real(e, node, "expression"))


@rule(*_BITS)
def _bits(e: Elaborator, node: exp.Expr) -> Type:
    for arg in ("this", "expression"):
        if isinstance(node.args[arg], _BITS) and type(node.args[arg]) is not type(node):
            # The parser binds them all alike, GoogleSQL & before ^ before |.
            raise Refused("between different bit operators write parentheses", node)
        if e.type(node.args[arg]).name is not S.INT64:
            raise Refused("bits are those of INT64", node)
    return Type(S.INT64)


@rule(exp.BitwiseNot)
def _complement(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.INT64))


def check_rounded(node: exp.Expr) -> None:
    """Refuse a function whose last digit differs from engine to engine, unless ROUND cuts it off."""
    outer = node.parent
    while outer is not None and not isinstance(outer, (exp.Round, exp.Query)):
        outer = outer.parent
    if not isinstance(outer, exp.Round):
        raise Refused(
            f"the last digit of {written_name(node)} differs between engines; write ROUND(…, 9) around it", node
        )


def real(e: Elaborator, node: exp.Expr, arg: str = "this") -> SqlType:
    """FLOAT64 from FLOAT64 or INT64."""
    kind = e.type(node.args[arg])
    if not is_number(kind.name) or kind.name is S.NUMERIC:
        raise Refused(f"{written_name(node)} takes FLOAT64, not {kind}; write CAST(… AS FLOAT64)", node)
    return e.expect(node, arg, S.FLOAT64)


def _holds_numeric(e: Elaborator, node: exp.Expr) -> bool:
    return e.type(node.this).name is S.NUMERIC
