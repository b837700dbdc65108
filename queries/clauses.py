"""Types of the clauses that order a query's rows and cut them off."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from contract.schema import SqlType
from queries.errors import Refused
from queries.typed import Type

if TYPE_CHECKING:
    from queries.elaborate import Elaborator


def type_order(e: Elaborator, query: exp.Expr, columns: Sequence[Type]) -> None:
    """Type ORDER BY, LIMIT and OFFSET of a query whose output has the types ``columns``. Raises ``Refused``."""
    order = query.args.get("order")
    for item in list(order.expressions) if order is not None else ():
        if _is_unseen(query, item.this):
            raise Refused("with DISTINCT, ORDER BY takes output columns", item)
        if not e.ties.takes_out(item, partial(_kind, e, item.this, columns)):
            type_term(e, item.this, columns)
    for arg in ("limit", "offset"):
        held = query.args.get(arg)
        if held is not None:
            _type_count(e, held)
    if query.args.get("limit") is not None and order is None:
        raise Refused("LIMIT without ORDER BY may answer differently each time", query.args["limit"])


def _is_unseen(query: exp.Expr, term: exp.Expr) -> bool:
    """Whether a term orders rows by what DISTINCT has left out, so that one row may have several places."""
    if not isinstance(query, exp.Select) or query.args.get("distinct") is None or isinstance(term, exp.Literal):
        return False
    return term not in [item.unalias() for item in query.expressions]


def type_term(e: Elaborator, term: exp.Expr, columns: Sequence[Type]) -> None:
    """A term of GROUP BY or ORDER BY: the number of an output column, or an expression."""
    if _kind(e, term, columns).nested:
        raise Refused("an ARRAY or STRUCT has no order and no groups", term)


def _kind(e: Elaborator, term: exp.Expr, columns: Sequence[Type]) -> Type:
    if not isinstance(term, exp.Literal):
        return e.type(term)
    if term.is_string or not term.name.isdigit() or not 1 <= int(term.name) <= len(columns):
        raise Refused("a number in GROUP BY or ORDER BY is that of an output column", term)
    return columns[int(term.name) - 1]


def _type_count(e: Elaborator, held: exp.Expr) -> None:
    value = held.expression
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
        return
    if not isinstance(value, exp.Parameter):
        raise Refused(f"{held.key.upper()} takes a number or a parameter", held)
    parameter = e.parameter(value)
    whole = parameter.type is SqlType.INT64 and not parameter.nullable and not parameter.repeated
    bounds = [parameter.minimum, parameter.maximum]
    if not whole or not all(isinstance(bound, int) and bound >= 0 for bound in bounds):
        raise Refused(
            f"{held.key.upper()} takes an INT64 parameter that is not nullable, with a minimum of 0 or more "
            f"and a maximum; @{parameter.name} is declared otherwise",
            held,
        )
    e.type(value)
