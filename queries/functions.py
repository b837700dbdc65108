"""Types of functions of text."""

from __future__ import annotations

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import BOOL, Elaborator, rule
from queries.errors import Refused, written_name
from queries.typed import Type, set_source

S = SqlType


@rule(exp.Lower, exp.Upper)
def _text(e: Elaborator, node: exp.Expr) -> Type:
    return Type(e.expect(node, "this", S.STRING))


@rule(exp.Concat)
def _concat(e: Elaborator, node: exp.Expr) -> Type:
    kind = e.unify(node, node.expressions, node)
    if kind not in (S.STRING, S.BYTES):
        raise Refused("CONCAT takes STRING or BYTES; write CAST(… AS STRING)", node)
    return Type(kind)


@rule(exp.DPipe)
def _pipe(e: Elaborator, node: exp.Expr) -> Type:
    operands = [node.this, node.expression]
    kind = e.unify(node, operands, node)
    if kind not in (S.STRING, S.BYTES) or any(e.type(one).name is None for one in operands):
        raise Refused("|| takes STRING or BYTES; write CAST(… AS STRING)", node)
    return Type(kind)


@rule(exp.Length, exp.ByteLength)
def _length(e: Elaborator, node: exp.Expr) -> Type:
    characters = isinstance(node, exp.Length) and not node.args.get("binary")
    set_source(node, e.expect(node, "this", S.STRING) if characters else e.expect(node, "this", S.STRING, S.BYTES))
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
        if node.args.get(arg) is None:
            raise Refused("REPLACE takes three arguments", node)
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
    kind = e.expect(node, "this", S.STRING, S.BYTES)
    if node.args.get("start") is None:
        raise Refused(f"{written_name(node)} takes a position", node)
    for arg in ("start", "length"):
        if node.args.get(arg) is not None:
            e.expect(node, arg, S.INT64)
    return Type(kind)
