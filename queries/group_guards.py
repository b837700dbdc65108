"""What a group of enough subjects could still tell of one of them, closed when the template is loaded.

An aggregate passes over NULL, so a group of many may hold a sum of one: each aggregate stands
behind the number of subjects that have a value for it. A row that fails ends the whole query,
whoever is in its group: where a caller chooses the rows freely, no row may fail. And sums of
powers of one column are as many equations as its group has values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sqlglot import exp

from contract.schema import Mode, SqlType, Table
from queries.errors import Refused, written_name
from queries.typed import SQL_TYPES

_SAFE_CALLS: Final = frozenset(
    {"REGEXP_CONTAINS", "REVERSE", "SAFE_ADD", "SAFE_MULTIPLY", "SAFE_NEGATE", "SAFE_SUBTRACT", "UNICODE", "ASCII"}
)
# What gives a value or NULL of whatever a row holds.
_NEVER_FAIL: Final = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Parameter, exp.Var, exp.DataType),
    *(exp.Alias, exp.Paren, exp.Not, exp.And, exp.Or, exp.Is, exp.Between, exp.In, exp.Unnest, exp.Like),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.If, exp.Case, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.StartsWith, exp.EndsWith, exp.StrPosition, exp.Tuple),
    *(exp.Extract, exp.WeekStart, exp.DateTrunc, exp.DatetimeTrunc, exp.TimestampTrunc, exp.TimeTrunc, exp.DateDiff),
    *(exp.TryCast, exp.SafeDivide, exp.SafeFunc, exp.Floor, exp.Ceil, exp.Sign, exp.DatetimeDiff, exp.TimestampDiff),
)


_CONVERTED: Final = {
    SqlType.FLOAT64: frozenset({SqlType.INT64, SqlType.NUMERIC, SqlType.FLOAT64}),
    SqlType.NUMERIC: frozenset({SqlType.INT64, SqlType.NUMERIC}),
    SqlType.INT64: frozenset({SqlType.INT64}),
}
"""From which types a number is converted to another without ever failing."""


def check_no_powers(aggregate: exp.Expr, name: str) -> None:
    """A product holds a column once. Raises ``Refused``."""
    for product in aggregate.find_all(exp.Mul):
        if _names(product.this) & _names(product.expression):
            raise Refused(f"minimum_group: {name} of a column times itself, with others, shows each value", product)


def check_one_set(aggregates: Sequence[exp.Expr], table: Table, name: Callable[[exp.Expr], str]) -> None:
    """No two exact sums of one column differ by those few who have a value in another. Raises ``Refused``.

    ``SUM(a + b)`` passes over whoever has no ``b``; beside ``SUM(a)`` and ``SUM(b)`` it shows their ``a``.
    """
    sums = [aggregate for aggregate in aggregates if not isinstance(aggregate, exp.Count)]
    for aggregate in sums:
        names = _names(aggregate)
        if len(names) < 2 or all(_is_required(table, column) for column in names):
            continue
        if any(_names(other) & names and _names(other) != names for other in sums):
            raise Refused(
                f"minimum_group: {name(aggregate)} of several columns that may be NULL, beside a sum of one of them, "
                "shows those who have no value; round both, or declare the columns REQUIRED",
                aggregate,
            )


def check_cast(cast: exp.Cast, name: str, table: Table) -> None:
    """A conversion inside an aggregate has a value for every row, or the rows of small groups would show. Raises ``Refused``."""
    # What is no number is refused as such.
    held = {
        column.type for item in _names(cast) if (column := table.column(item)) is not None and column.type in _CONVERTED
    }
    target = SQL_TYPES.get(cast.to.this)
    if target is None or not held <= _CONVERTED.get(target, frozenset()):
        raise Refused(
            f"minimum_group: inside {name} a CAST is to FLOAT64, or of INT64 to NUMERIC: others may fail", cast
        )


def check_no_failing_row(select: exp.Select, free: str) -> None:
    """Below the groups of ``select`` no row fails, since ``free`` lets a caller choose it. Raises ``Refused``."""
    for term in _of_rows(select):
        for node in term.walk():
            safe = isinstance(node, _NEVER_FAIL) or (
                isinstance(node, exp.Anonymous) and node.name.upper() in _SAFE_CALLS
            )
            if not safe and node.find(exp.Column) is not None:
                raise Refused(
                    f"minimum_group: {written_name(node)} fails where a row has some value, and @{free} is free: "
                    "whether the query fails tells that row; use comparisons, SAFE_CAST or SAFE_DIVIDE",
                    node,
                )


def guard(aggregate: exp.Expr, subject: exp.Column, table: Table, size: int) -> None:
    """Put NULL in place of an aggregate to which fewer than ``size`` subjects contribute a value."""
    columns = sorted(_names(aggregate))
    missing = [name for name in columns if name != subject.name and not _is_required(table, name)]
    if not missing:
        return
    held = [exp.Not(this=exp.Is(this=_column(subject, name), expression=exp.Null())) for name in missing]
    who = exp.Case(ifs=[exp.If(this=exp.and_(*held, copy=False), true=subject.copy())])
    guarded = exp.Case(ifs=[exp.If(this=enough(who, size), true=aggregate.copy())])
    aggregate.replace(guarded)


def enough(who: exp.Expr, size: int) -> exp.GTE:
    """That a group has at least ``size`` distinct values of ``who``."""
    counted = exp.Count(this=exp.Distinct(expressions=[who]), big_int=True)
    return exp.GTE(this=counted, expression=exp.Literal.number(size))


def _of_rows(select: exp.Select) -> Iterable[exp.Expr]:
    """What is computed for each row: WHERE, GROUP BY, and items without an aggregate, which GROUP BY may name by number."""
    where, group = select.args.get("where"), select.args.get("group")
    if where is not None:
        yield where.this
    yield from group.expressions if group is not None else ()
    yield from (item for item in select.expressions if item.find(exp.AggFunc) is None)


def _names(node: exp.Expr) -> set[str]:
    return {column.name for column in node.find_all(exp.Column)}


def _is_required(table: Table, name: str) -> bool:
    column = table.column(name)
    return column is not None and column.mode is Mode.REQUIRED


def _column(subject: exp.Column, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(subject.table, quoted=True))
