"""An authority's rows, columns and masks, applied at every base table of a template.

Each base table becomes ``(SELECT mask(c) AS c, … FROM physical AS _b WHERE conditions) AS alias``.
The tables are the nodes that ``resolve`` marked, never looked up by name; values are bound,
never written into the text. The supplied relation is no base table and stays as it is. The result
is GoogleSQL; an engine translates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from contract.authority import Authority
from contract.schema import Column, Mode, SqlType, Table
from contract.scope import Mask, Sensitivity
from contract.verdict import NotGranted, Reason
from queries.conditions import ROW, Condition, conditions_of, stored, test_of
from queries.groups import hides_sums, is_stored_subject
from queries.masks import masked
from queries.resolve import base_columns, base_table, is_supplied
from queries.supplied import attach, bound_fields, reference
from queries.template import Template
from queries.typed import Type, set_type

DATA_SCHEMA: Final = "__data"
SUBJECT: Final = "_subject"


@dataclass(frozen=True, slots=True)
class Shape:
    """What governing does to the text of a template, without any value: the key of a text cache."""

    conditions: tuple[Condition, ...]
    masks: tuple[tuple[str, Mask], ...]


@dataclass(frozen=True, slots=True)
class Governed:
    """A shape and the values its parameters are bound to."""

    shape: Shape
    values: Mapping[str, Any]


def govern(template: Template, authority: Authority) -> Governed:
    """What ``authority`` allows of ``template``.

    Raises ``NotGranted``: COLUMN_NOT_PERMITTED where the template reads a column outside the
    permitted ones, or a holder constrains a column it may not see; GRANT_CONSTRAINT_UNKNOWN
    where a constraint or mask names a column the dataset does not have or does not fit its
    type, and where a constraint could not govern all that the template reads.
    """
    if authority.dataset != template.dataset:
        raise NotGranted(Reason.GRANT_WIDENED, "the authority is for another dataset")
    if authority.columns is not None and not template.columns_read <= authority.columns:
        raise NotGranted(Reason.COLUMN_NOT_PERMITTED, "the capability reads a column that is not permitted")
    _check_holder(template, authority)
    conditions: list[Condition] = []
    values: dict[str, Any] = {}
    for name, constraint in sorted(authority.rows.items()):
        column = _constrained(template, name)
        table = name.split(".")[0]
        _check_reach(template, authority, table, column.name)
        for condition, value in conditions_of(table, column, constraint, len(conditions)):
            conditions.append(condition)
            values[condition.parameter] = value
    for name in authority.masks:
        _column(template, name)
    masks = tuple((name, mask) for name, mask in sorted(authority.masks.items()) if name in template.columns_read)
    return Governed(Shape(tuple(conditions), masks), values)


def _check_holder(template: Template, authority: Authority) -> None:
    """A holder may not ask through a filter what it may not read.

    A constraint is applied to the stored value, before masks and before groups are
    suppressed, so one that a holder chooses on a hidden column is an oracle on it. It is
    accepted where this agent's own policy already demands as much, else only on a column
    that the result shows as it is, or that the publisher declared an attribute, where it may be
    seen unmasked; and on no restricted capability, and none whose groups have a minimum size
    and are not rounded: two scopes that differ by one subject would be subtracted.
    """
    scope = authority.scope
    demanded = authority.decision.obligations.rows
    for name, constraint in scope.constraints.items():
        own = demanded.get(name)
        if own is not None and constraint.covers(own):
            continue
        column = _column(template, name)
        shown = name in template.columns_shown or column.attribute is not None
        if authority.columns is not None:
            shown = shown and name in authority.columns
        if not shown or name in authority.masks or not column.sensitivity.within(authority.sensitivity):
            raise NotGranted(Reason.COLUMN_NOT_PERMITTED, "the grant constrains a column that it may not see")
        if authority.sensitivity is Sensitivity.RESTRICTED:
            raise NotGranted(Reason.COLUMN_NOT_PERMITTED, "a holder may not constrain a restricted capability")
        if not _hides_differences(template):
            raise NotGranted(Reason.COLUMN_NOT_PERMITTED, "a holder may not choose which rows exact groups are made of")


def _hides_differences(template: Template) -> bool:
    """Whether results of a capability may be subtracted from one another without showing a subject."""
    rule = template.minimum_group
    return rule is None or (rule.round_counts_to is not None and hides_sums(rule))


def _check_reach(template: Template, authority: Authority, table: str, column: str) -> None:
    """A constraint governs all of a result or none of it.

    One on a table that is not read would be ignored. Columns that the publisher declared to
    be one attribute are constrained together: where one of them is left open, nothing runs.
    """
    if table not in template.tables_read:
        raise NotGranted(
            Reason.GRANT_CONSTRAINT_UNKNOWN, f"a row constraint on {table} cannot govern what the capability reads"
        )
    attribute = _column(template, f"{table}.{column}").attribute
    if attribute is None:
        return
    for name in sorted(template.tables_read):
        for other in _table(template, name).columns:
            if other.attribute == attribute and f"{name}.{other.name}" not in authority.rows:
                raise NotGranted(
                    Reason.GRANT_CONSTRAINT_UNKNOWN,
                    f"a row constraint on {table}.{column} leaves {name}.{other.name} open: constrain both",
                )


def rewrite(template: Template, shape: Shape, *, written: bool = False, guarded: bool = False) -> exp.Query:
    """The template's typed GoogleSQL with every base table governed; ``written`` takes it as its author wrote it.

    ``guarded`` is for an engine that may compute an expression above before it filters: a row
    that is filtered out is NULL in every column there, so that no failure tells of it.
    """
    tree = template.written() if written else template.tree()
    masks = dict(shape.masks)
    for node in list(tree.find_all(exp.Table)):
        name = base_table(node)
        if name is not None:
            node.replace(_governed(node, name, template, shape, masks, guarded=guarded))
        elif is_supplied(node):
            node.replace(reference(node.alias_or_name))
    for column in tree.find_all(exp.Column):
        if is_stored_subject(column):
            column.set("this", exp.to_identifier(SUBJECT, quoted=True))
    if template.supplied is not None:
        attach(tree, bound_fields(template))
    return tree


def _governed(
    node: exp.Table, name: str, template: Template, shape: Shape, masks: Mapping[str, Mask], *, guarded: bool
) -> exp.Subquery:
    table = _table(template, name)
    shown: list[exp.Expr] = []
    for column in table.columns:
        if column.name in base_columns(node):
            value: exp.Expr = stored(column)
            mask = masks.get(f"{name}.{column.name}")
            shown.append(_named(column.name, value if mask is None else masked(column, mask, value)))
    rule = template.minimum_group
    if rule is not None and rule.table == name and (subject := table.column(rule.column)) is not None:
        # Counted as it is stored: a mask would make one subject of many, or none of any.
        shown.append(_named(SUBJECT, stored(subject)))
    if not shown:
        one = exp.Literal.number(1)
        set_type(one, Type(SqlType.INT64, literal=True))
        shown.append(_named("_one", one))
    physical = exp.Table(
        this=exp.to_identifier(name, quoted=True),
        db=exp.to_identifier(DATA_SCHEMA, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(ROW, quoted=True)),
    )
    wanted = [test_of(condition, table) for condition in shape.conditions if condition.table == name]
    if wanted and guarded:
        for alias in shown:
            alias.set("this", exp.If(this=exp.and_(*wanted), true=alias.this, false=exp.null()))
    select = exp.Select(expressions=shown, from_=exp.From(this=physical))
    if wanted:
        select.set("where", exp.Where(this=exp.and_(*wanted, copy=False)))
    named = exp.TableAlias(this=exp.to_identifier(node.alias_or_name, quoted=True))
    return exp.Subquery(this=select, alias=named)


def _table(template: Template, name: str) -> Table:
    table = template.table(name)
    if table is None:
        raise RuntimeError("a base table of a loaded template is declared")
    return table


def _named(name: str, value: exp.Expr) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _column(template: Template, name: str) -> Column:
    table_name, _, column_name = name.partition(".")
    if template.supplied is not None and table_name == template.supplied.name:
        raise NotGranted(
            Reason.GRANT_CONSTRAINT_UNKNOWN, "a row constraint or mask names rows that another agent governs"
        )
    table = template.table(table_name)
    column = table.column(column_name) if table is not None else None
    if column is None:
        raise NotGranted(
            Reason.GRANT_CONSTRAINT_UNKNOWN, "a row constraint or mask names a column the dataset does not have"
        )
    return column


def _constrained(template: Template, name: str) -> Column:
    column = _column(template, name)
    if column.mode is Mode.REPEATED:
        raise NotGranted(Reason.GRANT_CONSTRAINT_UNKNOWN, "a row constraint names a column of lists")
    return column
