"""Row constraints as conditions on the stored rows of a base table, their values bound as parameters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from contract.schema import Column, SqlType, Table
from contract.scope import CONSTRAINT_KINDS, Constraint, ConstraintValue
from contract.verdict import NotGranted, Reason
from queries.scalars import Unfit, scalar
from queries.typed import Type, declared_type, set_type

ROW: Final = "_b"
"""What a base table is called inside the query that governs it; no template can say it."""
_LISTS: Final = ("one_of", "not_one_of")
_ORDERED: Final = (SqlType.INT64, SqlType.NUMERIC, SqlType.FLOAT64, SqlType.DATE, SqlType.TIMESTAMP)
_SCOPED: Final = "scoped"


@dataclass(frozen=True, slots=True)
class Condition:
    """One bound condition on a base table's column; ``kind`` is of the constraint vocabulary."""

    table: str
    column: str
    kind: str
    parameter: str
    type: SqlType
    repeated: bool


def conditions_of(table: str, column: Column, constraint: Constraint, first: int) -> list[tuple[Condition, Any]]:
    """The conditions that a constraint makes, each with the value of its parameter; ``first`` numbers them.

    Raises ``NotGranted(GRANT_CONSTRAINT_UNKNOWN)`` where the constraint does not fit the column's type.
    """
    out: list[tuple[Condition, Any]] = []
    for kind in CONSTRAINT_KINDS:
        value = getattr(constraint, kind)
        if value is not None:
            parameter = f"__s{first + len(out)}"
            condition = Condition(table, column.name, kind, parameter, column.type, kind in _LISTS)
            out.append((condition, _bound(column, kind, value)))
    return out


def test_of(condition: Condition, table: Table) -> exp.Expr:
    """The condition as typed GoogleSQL over ``ROW``. NULL never meets one."""
    declared = table.column(condition.column)
    if declared is None:
        raise RuntimeError("a condition is on a declared column")
    column = stored(declared)
    held = exp.Parameter(this=exp.Var(this=condition.parameter))
    set_type(held, Type(condition.type, array=condition.repeated))
    match condition.kind:
        case "one_of":
            return _one_of(column, held)
        case "not_one_of":
            # NULL is no member of an empty list either, so its absence would let it pass.
            present = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
            return exp.Paren(this=exp.And(this=present, expression=exp.Not(this=_one_of(column, held))))
        case "max":
            return exp.LTE(this=column, expression=held)
        case "min":
            return exp.GTE(this=column, expression=held)
        case "prefix":
            return exp.StartsWith(this=column, expression=held)
    raise NotGranted(Reason.GRANT_CONSTRAINT_UNKNOWN, "a row constraint is of an unknown kind")


def is_scoped(node: exp.Expr) -> bool:
    """Whether ``node`` asks for a member of a constraint's list: it is never NULL, nor is an item, and it may be long."""
    return bool(node.meta.get(_SCOPED, False))


def stored(column: Column) -> exp.Column:
    """A column of the base table itself, as it is stored."""
    node = exp.Column(this=exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(ROW, quoted=True))
    set_type(node, declared_type(column))
    return node


def _one_of(column: exp.Expr, held: exp.Expr) -> exp.In:
    node = exp.In(this=column, unnest=exp.Unnest(expressions=[held]))
    node.meta[_SCOPED] = True
    return node


def _bound(column: Column, kind: str, value: Any) -> Any:
    """The value or sorted list of values that a constraint binds, of the column's own type."""
    fits = kind in _LISTS
    fits = fits or (kind in ("max", "min") and column.type in _ORDERED)
    fits = fits or (kind == "prefix" and column.type is SqlType.STRING)
    try:
        if not fits:
            raise Unfit("has no such constraint")
        if isinstance(value, frozenset):
            return sorted(_value(column.type, item) for item in value)
        return _value(column.type, value)
    except Unfit:
        raise NotGranted(
            Reason.GRANT_CONSTRAINT_UNKNOWN, "a row constraint does not fit the type of its column"
        ) from None


def _value(kind: SqlType, value: ConstraintValue) -> str | int | float | bool | Decimal | date | datetime:
    if kind is SqlType.STRING:
        if not isinstance(value, str):
            raise Unfit("must be text")
        return value
    if kind is SqlType.BOOL:
        if value not in ("true", "false"):
            raise Unfit("must be true or false")
        return value == "true"
    if kind is SqlType.FLOAT64:
        return float(scalar(SqlType.NUMERIC, value))
    if kind in _ORDERED:
        checked: int | Decimal | date | datetime = scalar(kind, value)
        return checked
    raise Unfit("has a type without constraints")
