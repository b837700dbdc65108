"""A minimum group size: groups of too few subjects are left out, whatever is asked.

The rule becomes part of the query when the template is loaded: ``HAVING COUNT(DISTINCT
subject) >= size`` on its only aggregation, and rounded aggregates where the rule says so. What
could undo it is refused then: another aggregation or table beside it, anything that picks a
few rows out of a group, and arguments from which a caller could build two groups that differ
by one subject. What remains is in docs/groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp

from contract.minimum_group import GroupRule
from contract.schema import Column, Mode, Parameter, SqlType, Table
from queries.errors import Refused
from queries.group_guards import check_cast, check_no_failing_row, check_no_powers, check_one_set, enough, guard
from queries.resolve import Resolved, base_table, is_supplied
from queries.rounding import round_aggregates, summed_type

_STORED: Final = "stored_subject"
_SPREAD_SIZE: Final = 3
_SUBJECTS: Final = (SqlType.STRING, SqlType.INT64, SqlType.BYTES)
_NUMBERS: Final = (SqlType.INT64, SqlType.NUMERIC, SqlType.FLOAT64)
_SPREADS: Final = (exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop)
_AGGREGATES: Final = (exp.Count, exp.Sum, exp.Avg, *_SPREADS)
_ARITHMETIC: Final = (exp.Column, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Cast)
_PICKS: Final[dict[type[exp.Expr], str]] = {
    exp.Min: "MIN shows one subject's value",
    exp.Max: "MAX shows one subject's value",
    exp.AnyValue: "ANY_VALUE shows one subject's value",
    exp.ArrayAgg: "ARRAY_AGG shows every subject's value",
    exp.GroupConcat: "STRING_AGG shows every subject's value",
    exp.PercentileCont: "a percentile shows one subject's value",
    exp.PercentileDisc: "a percentile shows one subject's value",
    exp.CountIf: "COUNTIF counts a few of a group",
}


def apply_rule(resolved: Resolved, rule: GroupRule, tables: Sequence[Table], parameters: Sequence[Parameter]) -> None:
    """Add the rule to a resolved query that is not typed yet. Raises ``Refused``."""
    subject = _subject(rule, tables)
    tree = resolved.tree
    _check_constructs(tree)
    select = _aggregating(tree)
    table = _only_table(tree, select, rule)
    aggregates = [node for node in select.find_all(exp.AggFunc) if not isinstance(node, exp.Window)]
    for aggregate in aggregates:
        _check_aggregate(aggregate, rule, tables)
    _check_arguments(tree, parameters, rule, aggregates)
    free = _free(tree, parameters)
    if free is not None:
        check_no_failing_row(select, free.name)
    stored = _stored(table, subject)
    declared = next(declared for declared in tables if declared.name == rule.table)
    if not hides_sums(rule):
        check_one_set(aggregates, declared, _name)
    for aggregate in aggregates:
        guard(aggregate, stored, declared, rule.size)
    _require(select, stored, rule.size)


def round_results(typed: exp.Query, written: exp.Query, rule: GroupRule) -> None:
    """Round every aggregate but the rule's own, in a typed query and in the same query as it was written."""
    kinds = [summed_type(node) for node in _released(typed)]
    for tree in (typed, written):
        round_aggregates(_released(tree), kinds, rule)


def _released(tree: exp.Query) -> list[exp.Expr]:
    """The aggregates of the query itself, in the order of the text, which no conversion changes."""
    found = tree.find_all(exp.AggFunc, bfs=False)
    return [node for node in found if not any(is_stored_subject(column) for column in node.find_all(exp.Column))]


def is_stored_subject(node: exp.Expr) -> bool:
    """Whether ``node`` is the rule's own reading of the subject, which no mask reaches."""
    return bool(node.meta.get(_STORED, False))


def _subject(rule: GroupRule, tables: Sequence[Table]) -> Column:
    table = next((table for table in tables if table.name == rule.table), None)
    column = table.column(rule.column) if table is not None else None
    if column is None:
        raise Refused(f"minimum_group: there is no column {rule.subject}")
    if column.type not in _SUBJECTS or column.mode is Mode.REPEATED:
        raise Refused(f"minimum_group: {rule.subject} is no STRING, INT64 or BYTES and names no subject")
    return column


def _check_constructs(tree: exp.Query) -> None:
    """What may stand nowhere in such a query, above the groups neither."""
    for node in tree.walk():
        if isinstance(node, exp.SetOperation):
            raise Refused(f"minimum_group: {node.key.upper()} joins groups with rows of another query", node)
        if isinstance(node, exp.Window):
            raise Refused("minimum_group: a window shows rows of a group", node)
        if isinstance(node, exp.Select) and node.args.get("distinct") is not None:
            raise Refused("minimum_group: SELECT DISTINCT is an aggregation of its own", node)


def _aggregating(tree: exp.Query) -> exp.Select:
    found = [
        select
        for select in tree.find_all(exp.Select)
        if select.args.get("group") is not None
        or select.args.get("having") is not None
        or any(node.parent_select is select for node in select.find_all(exp.AggFunc))
    ]
    if not found:
        raise Refused("minimum_group: the query aggregates nothing, so every row is a group of its own", tree)
    if len(found) > 1:
        raise Refused("minimum_group: the query aggregates more than once", found[1])
    return found[0]


def _only_table(tree: exp.Query, select: exp.Select, rule: GroupRule) -> exp.Table:
    inner = next((node for node in select.find_all(exp.Select, exp.SetOperation) if node is not select), None)
    if inner is not None:
        raise Refused("minimum_group: a query below the aggregation could pick rows or limit them", inner)
    read = [node for node in tree.find_all(exp.Table) if base_table(node) or is_supplied(node)]
    held = select.args.get("from_")
    own = held.this if held is not None else None
    other = next((node for node in read if node is not own), None)
    if other is not None:
        raise Refused("minimum_group: a table beside the aggregated one could tell its rows apart", other)
    if not isinstance(own, exp.Table) or base_table(own) != rule.table:
        raise Refused(
            f"minimum_group: the aggregation reads {rule.table}, the subject's table, and nothing else", select
        )
    if joins := [*(select.args.get("joins") or []), *(select.args.get("laterals") or [])]:
        raise Refused("minimum_group: a join below the aggregation could repeat a subject's rows", joins[0])
    return own


def _check_aggregate(node: exp.Expr, rule: GroupRule, tables: Sequence[Table]) -> None:
    """An aggregate weighs all rows of its group alike: no choice among them, no argument of a caller."""
    if (why := _PICKS.get(type(node))) is not None:
        raise Refused(f"minimum_group: {why}", node)
    if not isinstance(node, _AGGREGATES):
        raise Refused(f"minimum_group: {_name(node)} is not accepted; use COUNT, SUM, AVG, STDDEV or VARIANCE", node)
    if isinstance(node, _SPREADS) and (rule.round_counts_to is not None or rule.round_sums_to is not None):
        raise Refused(f"minimum_group: {_name(node)} cannot be rounded; use COUNT, SUM or AVG", node)
    table = next(table for table in tables if table.name == rule.table)
    if isinstance(node, exp.Count):
        counted = node.this.expressions if isinstance(node.this, exp.Distinct) else [node.this]
        if not all(isinstance(item, (exp.Star, exp.Column)) for item in counted) or node.expressions:
            raise Refused("minimum_group: COUNT takes * or a column, so that it counts no choice of rows", node)
        return
    if isinstance(node, _SPREADS) and rule.size < _SPREAD_SIZE:
        raise Refused(
            f"minimum_group: {_name(node)} and a mean show both values of a group of two; size {_SPREAD_SIZE} at least",
            node,
        )
    check_no_powers(node, _name(node))
    for inner in node.this.walk():
        _check_operand(inner, node, table)


def _check_operand(inner: exp.Expr, aggregate: exp.Expr, table: Table) -> None:
    name = _name(aggregate)
    if isinstance(inner, (exp.If, exp.Case)):
        raise Refused(f"minimum_group: IF or CASE inside {name} picks a few of a group", inner)
    if isinstance(inner, exp.Parameter):
        raise Refused(f"minimum_group: a parameter inside {name} weighs rows as the caller likes", inner)
    if isinstance(inner, exp.Distinct):
        raise Refused(f"minimum_group: DISTINCT stands in COUNT only, not in {name}", inner)
    if isinstance(inner, exp.Column):
        column = table.column(inner.name)
        if column is not None and (column.type not in _NUMBERS or column.mode is Mode.REPEATED):
            raise Refused(f"minimum_group: {name} takes numbers; {inner.name} would count a few of a group", inner)
    if isinstance(inner, exp.Cast):
        check_cast(inner, name, table)
    if isinstance(inner, exp.Div) and not isinstance(inner.expression.unnest(), exp.Literal):
        raise Refused(f"minimum_group: inside {name} a divisor is a written number", inner)
    if not isinstance(inner, (*_ARITHMETIC, exp.Literal, exp.Identifier, exp.DataType)):
        raise Refused(f"minimum_group: inside {name} stand columns, numbers and + - * / only", inner)


def _check_arguments(
    tree: exp.Query, parameters: Sequence[Parameter], rule: GroupRule, aggregates: Iterable[exp.Expr]
) -> None:
    """Free arguments let a caller build two groups that differ by one subject; rounding hides the difference."""
    free = _free(tree, parameters)
    if free is None:
        return
    used = next((node for node in tree.find_all(exp.Parameter) if node.name == free.name), None)
    for aggregate in aggregates:
        if isinstance(aggregate, _SPREADS):
            raise Refused(f"minimum_group: {_name(aggregate)} cannot be rounded, and @{free.name} is free", aggregate)
        sums = isinstance(aggregate, (exp.Sum, exp.Avg))
        counts = isinstance(aggregate, (exp.Count, exp.Avg))
        if (counts and rule.round_counts_to is None) or (sums and not hides_sums(rule)):
            step = "round_sums_to" if sums and not hides_sums(rule) else "round_counts_to"
            told, mend = _why_free(free)
            raise Refused(
                f"minimum_group: @{free.name} {told}, so results could be subtracted; {mend}, or {step}", used
            )


def hides_sums(rule: GroupRule) -> bool:
    """Whether sums are rounded to more than the whole number that a sum of INT64 is anyway."""
    return rule.round_sums_to is not None and rule.round_sums_to > 1


def _free(tree: exp.Query, parameters: Sequence[Parameter]) -> Parameter | None:
    """The first parameter from which a caller chooses rows as it likes."""
    return next((item for item in parameters if not _enumerated(item) and not _pages(tree, item)), None)


def _enumerated(parameter: Parameter) -> bool:
    """Whether a call chooses one of a few: a list or NULL would add groups up, from which others can be taken."""
    closed = bool(parameter.values) or parameter.type is SqlType.BOOL
    return closed and not parameter.repeated and not parameter.nullable


def _why_free(parameter: Parameter) -> tuple[str, str]:
    """What makes a parameter free, and what would make it one of a few."""
    if parameter.repeated:
        return "is a list", "declare its values without repeated"
    if parameter.nullable and (parameter.values or parameter.type is SqlType.BOOL):
        return "may be NULL", "declare it without nullable"
    return "is not one of a few single values", "declare its values"


def _pages(tree: exp.Query, parameter: Parameter) -> bool:
    """Whether a parameter only limits or pages the groups that are left."""
    uses = [node for node in tree.find_all(exp.Parameter) if node.name == parameter.name]
    return bool(uses) and all(isinstance(node.parent, (exp.Limit, exp.Offset)) for node in uses)


def _stored(table: exp.Table, subject: Column) -> exp.Column:
    column = exp.Column(
        this=exp.to_identifier(subject.name, quoted=True), table=exp.to_identifier(table.alias_or_name, quoted=True)
    )
    column.meta[_STORED] = True
    return column


def _require(select: exp.Select, subject: exp.Column, size: int) -> None:
    """The condition of the rule; a written one is not computed for a group that is too small, where it might fail."""
    condition: exp.Expr = enough(subject, size)
    written = select.args.get("having")
    if written is not None:
        condition = exp.Case(ifs=[exp.If(this=condition, true=exp.Paren(this=written.this))], default=exp.false())
    select.set("having", exp.Having(this=condition))


def _name(node: exp.Expr) -> str:
    return str(node.meta.get("bigquery_name") or node.key.upper())
