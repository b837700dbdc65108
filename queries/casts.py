"""Types of CAST and SAFE_CAST: every conversion GoogleSQL has between the types of templates."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import Elaborator, rule
from queries.errors import Refused
from queries.literals import canonical_text
from queries.nested import nested_cast
from queries.typed import SQL_TYPES, Type, set_source, set_written

S = SqlType
_MOMENTS: Final = (S.DATE, S.DATETIME, S.TIME, S.TIMESTAMP)
_FROM: Final[dict[SqlType, tuple[SqlType, ...]]] = {
    S.INT64: (S.FLOAT64, S.NUMERIC, S.STRING, S.BOOL),
    S.FLOAT64: (S.INT64, S.NUMERIC, S.STRING),
    S.NUMERIC: (S.INT64, S.FLOAT64, S.STRING),
    S.BOOL: (S.INT64, S.STRING),
    S.STRING: (S.INT64, S.FLOAT64, S.NUMERIC, S.BOOL, S.BYTES, *_MOMENTS),
    S.BYTES: (S.STRING,),
    S.DATE: (S.STRING, S.DATETIME, S.TIMESTAMP),
    S.DATETIME: (S.STRING, S.DATE, S.TIME, S.TIMESTAMP),
    S.TIME: (S.STRING,),
    S.TIMESTAMP: (S.STRING, S.DATE, S.DATETIME, S.TIME),
}
CASTS: Final = frozenset((source, target) for source, targets in _FROM.items() for target in targets)
_BELOW_NINE: Final = re.compile(r"\.[0-9]{10}")
_LITERALS: Final = (S.DATE, S.DATETIME, S.TIMESTAMP, S.NUMERIC, S.INT64)


@rule(exp.Cast, exp.TryCast)
def _cast(e: Elaborator, node: exp.Expr) -> Type:
    to = node.args["to"]
    safe = isinstance(node, exp.TryCast)
    if to.this in (exp.DType.ARRAY, exp.DType.STRUCT):
        if safe:
            raise Refused("SAFE_CAST to an ARRAY or STRUCT is not accepted", node)
        return nested_cast(e, node)
    target = SQL_TYPES.get(to.this)
    if target is None:
        raise Refused(f"CAST to {to.sql('bigquery')} is not accepted", node)
    value = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    kind = e.type(value)
    literal = (
        canonical_text(value.name, target) if kind.literal and kind.name is S.STRING and target in _LITERALS else None
    )
    if literal is not None:
        value.set("this", literal)
        node.set("this", value)
        set_source(node, S.STRING)
        set_written(node)
        return Type(target)
    if kind.literal and kind.name is S.STRING and target is S.NUMERIC and _BELOW_NINE.search(value.name):
        # GoogleSQL rounds it in CAST and refuses it in the literal NUMERIC '…'.
        raise Refused("the number is not a NUMERIC of nine decimals", node)
    if kind.literal and kind.name is S.FLOAT64 and target is S.NUMERIC:
        if canonical_text(value.name, target) is None:
            raise Refused("the number is not a NUMERIC of nine decimals", node)
        # Its digits are the NUMERIC's, not those of the FLOAT64 nearest to them.
        value = exp.Literal.string(value.name)
        e.type(value)
        set_written(node)
    elif kind.nested or (kind.name not in (None, target) and (kind.name, target) not in CASTS):
        raise Refused(f"CAST from {kind} to {target.value} is not accepted", node)
    node.set("this", value)
    set_source(node, kind.name)
    return Type(target)
