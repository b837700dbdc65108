"""Careless rewriters: each makes one mistake that looks reasonable, and the oracle must see each.

They stand in for ``queries.govern.rewrite``; the check of the generated text is taken away with
it, so that nothing but the rows can tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlglot import exp

from queries import govern
from queries.conditions import ROW, test_of
from queries.govern import SUBJECT, Shape
from queries.groups import is_stored_subject
from queries.masks import masked
from queries.resolve import base_table
from queries.template import Template
from queries.typed import Type, set_type

Rewriter = Callable[[Template, Shape], exp.Query]
Where = Callable[[exp.Table], bool]
OPEN: Final = Shape((), ())


def _nodes(tree: exp.Query) -> list[tuple[exp.Table, str]]:
    return [(node, name) for node in list(tree.find_all(exp.Table)) if (name := base_table(node)) is not None]


def _govern(template: Template, tree: exp.Query, shape: Shape, governed: Where = lambda node: True) -> exp.Query:
    """Govern the nodes that ``governed`` allows, and read the others as they are."""
    for column in tree.find_all(exp.Column):
        if is_stored_subject(column):
            column.set("this", exp.to_identifier(SUBJECT, quoted=True))
    for node, name in _nodes(tree):
        used = shape if governed(node) else OPEN
        node.replace(govern._governed(node, name, template, used, dict(used.masks), guarded=False))
    return tree


def no_condition(template: Template, shape: Shape) -> exp.Query:
    tree = _govern(template, template.tree(), shape)
    for where in _filters(tree):
        where.set("this", _opened(where.this))
    return tree


def _filters(tree: exp.Query) -> list[exp.Where]:
    """The conditions on base tables."""
    return [where for where in tree.find_all(exp.Where) if all(c.table == ROW for c in where.find_all(exp.Column))]


def _opened(test: exp.Expr) -> exp.Expr:
    """A condition that holds for every row; its parameters stay, because all of them are bound."""
    return exp.Or(this=exp.Paren(this=test), expression=exp.true())


def no_mask(template: Template, shape: Shape) -> exp.Query:
    return _govern(template, template.tree(), replace(shape, masks=()))


def last_condition_only(template: Template, shape: Shape) -> exp.Query:
    """One condition on a table replaces those before it."""
    tree = _govern(template, template.tree(), shape)
    for where in _filters(tree):
        if isinstance(where.this, exp.And):
            where.this.set("this", exp.Paren(this=_opened(where.this.this)))
    return tree


def first_occurrence_only(template: Template, shape: Shape) -> exp.Query:
    """A table that is read twice is governed once."""
    tree = template.tree()
    first = {name: node for node, name in reversed(_nodes(tree))}
    return _govern(template, tree, shape, lambda node: any(node is held for held in first.values()))


def by_name(template: Template, shape: Shape) -> exp.Query:
    """Tables are found by what the query calls them, so an alias hides one."""
    return _govern(template, template.tree(), shape, lambda node: node.alias_or_name == node.name)


def outermost_only(template: Template, shape: Shape) -> exp.Query:
    """Subqueries and common table expressions are forgotten."""
    tree = template.tree()
    return _govern(template, tree, shape, lambda node: node.parent_select is tree)


def not_in_set_operations(template: Template, shape: Shape) -> exp.Query:
    """Only the first query of a UNION is visited."""
    tree = template.tree()

    def governed(node: exp.Table) -> bool:
        child: exp.Expr = node
        while child.parent is not None:
            if isinstance(child.parent, exp.SetOperation) and child.arg_key == "expression":
                return False
            child = child.parent
        return True

    return _govern(template, tree, shape, governed)


def where_of_the_select(template: Template, shape: Shape) -> exp.Query:
    """Conditions are added to the WHERE of the query that reads the table: after its joins."""
    tree = template.tree()
    for node, name in _nodes(tree):
        select = node.parent_select
        for condition in shape.conditions:
            column = template.table(name).column(condition.column)  # type: ignore[union-attr]
            if condition.table == name and isinstance(select, exp.Select) and column is not None:
                test = test_of(condition, template.table(name))  # type: ignore[arg-type]
                for held in test.find_all(exp.Column):
                    held.set("table", exp.to_identifier(node.alias_or_name, quoted=True))
                written = select.args.get("where")
                both = test if written is None else exp.And(this=exp.Paren(this=written.this), expression=test)
                select.set("where", exp.Where(this=both))
        node.meta["base_columns"] = tuple(column.name for column in template.table(name).columns)  # type: ignore[union-attr]
    return _govern(template, tree, replace(shape, conditions=()))


def masks_in_results_only(template: Template, shape: Shape) -> exp.Query:
    """Columns are masked where they are returned, so joins, filters and orders use the stored values."""
    tree = template.tree()
    wanted = dict(shape.masks)
    tables = {node.alias_or_name: name for node, name in _nodes(tree)}
    for select in tree.find_all(exp.Select):
        for item in select.expressions:
            for column in list(item.find_all(exp.Column)):
                name = f"{tables.get(column.table)}.{column.name}"
                table = template.table(name.split(".")[0])
                declared = table.column(column.name) if table is not None else None
                if name in wanted and declared is not None and item.this is column:
                    column.replace(masked(declared, wanted[name], column.copy()))
    return _govern(template, tree, replace(shape, masks=()))


def null_passes(template: Template, shape: Shape) -> exp.Query:
    """A row without a value is let through, as a careless NOT IN does."""
    tree = _govern(template, template.tree(), shape)
    for where in _filters(tree):
        column = next(where.find_all(exp.Column))
        absent = exp.Is(this=column.copy(), expression=exp.Null())
        where.set("this", exp.Or(this=exp.Paren(this=where.this), expression=absent))
    return tree


def empty_list_is_no_limit(template: Template, shape: Shape) -> exp.Query:
    """A list of nothing is taken for no list."""
    tree = _govern(template, template.tree(), shape)
    for test in list(tree.find_all(exp.In)):
        unnest = test.args.get("unnest")
        if unnest is not None and test.this.table == ROW:
            size = exp.Anonymous(this="len", expressions=[unnest.expressions[0].copy()])
            none = exp.EQ(this=size, expression=exp.Literal.number(0))
            test.replace(exp.Paren(this=exp.Or(this=none, expression=test.copy())))
    return tree


def unkeyed_hash(template: Template, shape: Shape) -> exp.Query:
    tree = _govern(template, template.tree(), shape)
    for key in list(tree.find_all(exp.Parameter)):
        if key.name == "__k":
            literal = exp.Literal.string(hashlib.sha256(b"").hexdigest())
            set_type(literal, Type(None))
            key.replace(literal)
    return tree


def masked_subjects(template: Template, shape: Shape) -> exp.Query:
    """The subjects of a minimum group are counted as a mask shows them."""
    tree = _govern(template, template.tree(), shape)
    for item in list(tree.find_all(exp.Alias)):
        rule, masks = template.minimum_group, dict(shape.masks)
        table = template.table(rule.table) if rule is not None else None
        if rule is not None and table is not None and item.alias == SUBJECT and rule.subject in masks:
            column = table.column(rule.column)
            if column is not None:
                item.set("this", masked(column, masks[rule.subject], item.this.copy()))
    return tree


def no_minimum_group(template: Template, shape: Shape) -> exp.Query:
    tree = template.tree()
    for having in list(tree.find_all(exp.Having)):
        if any(is_stored_subject(column) for column in having.find_all(exp.Column)):
            having.pop()
    return _govern(template, tree, shape)


FAULTS: Final[tuple[Rewriter, ...]] = (
    no_condition,
    no_mask,
    last_condition_only,
    first_occurrence_only,
    by_name,
    outermost_only,
    not_in_set_operations,
    where_of_the_select,
    masks_in_results_only,
    null_passes,
    empty_list_is_no_limit,
    unkeyed_hash,
    masked_subjects,
    no_minimum_group,
)
OF_GROUPS: Final = (masked_subjects, no_minimum_group)
"""Those that only a capability with a minimum group size shows."""
