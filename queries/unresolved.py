"""What a name that sqlglot cannot resolve is told, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from sqlglot import exp
from sqlglot.errors import SqlglotError

from queries.errors import Refused, line_of

_COLUMN: Final = re.compile(r"Column '([^']+)' could not be resolved(?! for table)")
_UNKNOWN: Final = re.compile(r"Unknown (table|column|output column): (\S+)")


class Relation(Protocol):
    """A declared relation, as far as a message needs it."""

    @property
    def name(self) -> str: ...

    def column(self, name: str) -> Any: ...


def place(node: exp.Expr) -> int:
    """The line of a node, 0 where none is known."""
    return line_of(node) or 0


def unresolved(error: SqlglotError, tree: exp.Expr, declared: Mapping[str, Relation]) -> Refused:
    text = str(error).split("\n")[0]
    unknown = _UNKNOWN.fullmatch(text)
    if unknown is not None:
        return _unknown(unknown[1], unknown[2], tree, declared)
    line = re.search(r"Line: (\d+)", text)
    message = re.sub(r"\s*Line: \d+, Col: \d+\.?", "", text).rstrip(". ")
    column = _COLUMN.match(text)
    if column is not None:
        found = _alias_of(column[1], tree)
        if found is not None:
            return Refused(
                f"{column[1][:80]} is an output alias, which only GROUP BY, HAVING, QUALIFY and ORDER BY see; "
                "write the expression out",
                found,
            )
        message = f"there is no column {column[1][:80]} here"
    return Refused(message[:200], line=int(line[1]) if line else None)


def _unknown(kind: str, name: str, tree: exp.Expr, declared: Mapping[str, Relation]) -> Refused:
    """A name that sqlglot reports without a place: of the nodes that say it, the first that is wrong."""
    if kind == "table":
        said = [column for column in tree.find_all(exp.Column) if column.table.lower() == name.lower()]
        return Refused(f"{name[:80]} is no table or alias here", min(said, key=place, default=None))
    said = sorted((c for c in tree.find_all(exp.Column) if c.name.lower() == name.lower()), key=place)
    for column in said:
        table = declared.get(_source(column))
        if table is not None and table.column(column.name) is None:
            return Refused(f"table {table.name} has no column {name[:80]}", column)
    return Refused(f"there is no column {name[:80]} here", said[0] if said else None)


def _alias_of(name: str, tree: exp.Expr) -> exp.Column | None:
    """The first column of that name without a table whose own query has an output alias of that name."""
    for column in tree.find_all(exp.Column):
        items = column.parent_select.expressions if column.parent_select is not None else []
        aliased = any(item.alias.lower() == name.lower() for item in items)
        if aliased and column.name.lower() == name.lower() and not column.table:
            return column
    return None


def _source(column: exp.Column) -> str:
    """The table that a qualified column's alias names in the nearest query that has such an alias."""
    select = column.parent_select
    while select is not None:
        for node in (select.args.get("from_"), *(select.args.get("joins") or [])):
            held = node.this if node is not None else None
            if isinstance(held, exp.Table) and held.alias_or_name.lower() == column.table.lower():
                return held.name
        select = select.parent_select
    return ""
