"""Which source each written name means, by GoogleSQL's rules, settled before sqlglot reads the tree.

sqlglot qualifies names by rules that are not quite GoogleSQL's: an alias of UNNEST, a field of a
STRUCT and a correlated name may become another column. Here each name is looked up as GoogleSQL
does, innermost query first and a range variable before a column; what sqlglot then makes of it
must be the same (``check_settled``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlglot import exp

from queries.errors import Refused

ALIAS: Final = "alias_name"
_SETTLED: Final = "settled_name"
_BARE: Final = "bare_name"
_OFFSET: Final = "offset_name"
_NAMED: Final = "named_columns"
_CLAUSES: Final = ("group", "order", "having", "qualify")


class Columns(Protocol):
    """A declared relation, as far as its columns' names go."""

    @property
    def columns(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class _Source:
    """A range variable: a table, a query in FROM, or an UNNEST with its element and offset.

    ``label`` is what its columns are qualified with; ``columns`` are in lower case.
    """

    name: str
    label: str
    columns: frozenset[str]
    node: exp.Expr

    @property
    def is_unnest(self) -> bool:
        return isinstance(self.node, exp.Unnest)


@dataclass(frozen=True, slots=True)
class _Level:
    """The names that one query's FROM makes visible; ``shared`` are those of USING."""

    sources: tuple[_Source, ...]
    shared: frozenset[str]


def settle_names(tree: exp.Query, declared: Mapping[str, Columns]) -> frozenset[str]:
    """Qualify every name that FROM explains, in place. Raises ``Refused`` for one that has two meanings.

    What names an output alias or a column of USING, and what nothing explains, stays as it is
    written. Returns the columns of USING.
    """
    unnests = [node for node in tree.find_all(exp.Unnest) if isinstance(node.parent, (exp.From, exp.Join))]
    for number, node in enumerate(unnests):
        # No template can say a name that starts with an underscore.
        node.args["alias"].set("this", exp.to_identifier(f"_u{number}"))
    names = _Names(declared)
    for column in list(tree.find_all(exp.Column)):
        if ALIAS not in column.meta:
            names.settle(column)
    return frozenset(name.name.lower() for join in tree.find_all(exp.Join) for name in join.args.get("using") or ())


def check_settled(tree: exp.Query, shared: frozenset[str]) -> None:
    """Whether sqlglot left every settled name as it was, and qualified only those of USING. Raises ``Refused``."""
    for column in tree.find_all(exp.Column):
        settled = column.meta.get(_SETTLED)
        if column.args.get("db"):
            raise Refused(f"{column.sql('bigquery')} is no field of a column here", column)
        if settled is None:
            if column.name.lower() not in shared and ALIAS not in column.meta:
                raise Refused(f"{column.name} is no column of a table here; write its table or alias", column)
        elif settled != (column.table.lower(), column.name.lower()):
            raise Refused(f"{column.name} could be one column or another here; write its table", column)


def is_bare(column: exp.Expr) -> bool:
    """Whether a column was written without its table, so that a field of an UNNEST could be meant too."""
    return bool(column.meta.get(_BARE, False))


def is_offset(column: exp.Expr) -> bool:
    """Whether a column is the offset of an UNNEST."""
    return bool(column.meta.get(_OFFSET, False))


def named_columns(node: exp.Table) -> frozenset[str]:
    """The columns that names were settled on, of a table."""
    return frozenset(node.meta.get(_NAMED, ()))


class _Names:
    def __init__(self, declared: Mapping[str, Columns]) -> None:
        self._declared = declared
        self._sources: dict[int, list[tuple[exp.Expr, _Source]]] = {}

    def settle(self, column: exp.Column) -> None:
        parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
        head = parts[0].name.lower()
        alias = _alias_of(column, head) if len(parts) > 1 else None
        for level in self._levels(column):
            ranges = [source for source in level.sources if source.name.lower() == head]
            owners = [source for source in level.sources if head in source.columns]
            if alias is not None and (ranges or owners):
                _check_alias(column, alias, ranges, owners)
            if ranges:
                self._settle_range(column, parts, ranges, owners)
                return
            if owners:
                if len(parts) > 1 or head not in level.shared:
                    self._settle_column(column, parts, owners)
                return

    def _settle_range(
        self, column: exp.Column, parts: list[exp.Identifier], ranges: list[_Source], owners: list[_Source]
    ) -> None:
        source = ranges[0]
        if len(ranges) > 1:
            raise Refused(f"two tables have the alias {source.name} here", column)
        if source.is_unnest:
            if owners:
                raise Refused(f"{source.name} is both an element and a column here; choose another alias", column)
            _replace(column, source, parts[0], parts[1:])
        elif len(parts) == 1:
            if owners:
                raise Refused(f"{source.name} is both a table and a column here; write its table", column)
            raise Refused(f"{source.name} is a whole row here, which is not accepted; name its columns", column)
        elif parts[1].name.lower() in source.columns:
            _replace(column, source, parts[1], parts[2:])

    def _settle_column(self, column: exp.Column, parts: list[exp.Identifier], owners: list[_Source]) -> None:
        if len(owners) > 1:
            raise Refused(f"{parts[0].name} is a column of two tables here; write its table", column)
        new = _replace(column, owners[0], parts[0], parts[1:])
        new.meta[_OFFSET if owners[0].is_unnest else _BARE] = True

    def _levels(self, column: exp.Column) -> Iterator[_Level]:
        """The queries around a column whose FROM it can see, innermost first."""
        below: exp.Expr = column
        child: exp.Expr = column
        parent = column.parent
        while parent is not None:
            if isinstance(parent, exp.CTE):
                return
            if isinstance(parent, exp.Select):
                source = child.this if isinstance(child, (exp.From, exp.Join)) else None
                if source is not below or not isinstance(below, exp.Subquery):
                    # A query in FROM does not see its neighbours, an UNNEST those before it.
                    yield self._level(parent, child if source is below else None)
            below, child, parent = child, parent, parent.parent

    def _level(self, select: exp.Select, before: exp.Expr | None) -> _Level:
        found = self._sources.get(id(select))
        if found is None:
            items = [select.args.get("from_"), *(select.args.get("joins") or [])]
            found = [(item, self._source(item.this)) for item in items if item is not None]
            self._sources[id(select)] = found
        seen = []
        for item, source in found:
            if item is before:
                break
            seen.append(source)
        shared = {name.name.lower() for item, _ in found for name in item.args.get("using") or ()}
        return _Level(tuple(seen), frozenset(shared))

    def _source(self, node: exp.Expr) -> _Source:
        if isinstance(node, exp.Unnest):
            alias = node.args["alias"]
            offset = node.args.get("offset")
            columns = frozenset({offset.name.lower()}) if isinstance(offset, exp.Identifier) else frozenset()
            return _Source(alias.columns[0].name, alias.name, columns, node)
        if isinstance(node, exp.Table):
            return _Source(node.alias_or_name, node.alias_or_name, self._columns(node), node)
        if isinstance(node, exp.Subquery) and isinstance(node.unnest(), exp.Query):
            return _Source(node.alias, node.alias, frozenset(output_names(node.unnest())), node)
        raise Refused("only tables, queries and UNNEST stand in FROM", node)

    def _columns(self, table: exp.Table) -> frozenset[str]:
        common = _common_table(table)
        if common is not None:
            return frozenset(output_names(common.this))
        relation = self._declared.get(table.name)
        return frozenset(column.name.lower() for column in relation.columns) if relation is not None else frozenset()


def output_items(query: exp.Expr) -> list[exp.Expr]:
    """The select list that names the output columns: of a set operation, its first query's."""
    while isinstance(query, (exp.SetOperation, exp.Subquery)):
        query = query.this
    return list(query.expressions)


def output_names(query: exp.Expr) -> list[str]:
    return [item.alias_or_name.lower() for item in output_items(query)]


def _replace(column: exp.Column, source: _Source, name: exp.Identifier, fields: list[exp.Identifier]) -> exp.Column:
    """``column`` as a column of ``source`` and the fields of it that follow."""
    new = exp.Column(this=name.copy(), table=exp.to_identifier(source.label))
    new.meta.update(column.meta)
    new.meta[_SETTLED] = (source.label.lower(), name.name.lower())
    if isinstance(source.node, exp.Table):
        source.node.meta[_NAMED] = tuple({*source.node.meta.get(_NAMED, ()), name.name.lower()})
    value: exp.Expr = new
    for field in fields:
        value = exp.Dot(this=value, expression=field.copy())
    if fields and isinstance(column.parent, exp.Select) and column.arg_key == "expressions":
        value = exp.Alias(this=value, alias=fields[-1].copy())
    column.replace(value)
    return new


def _alias_of(column: exp.Column, head: str) -> exp.Expr | None:
    """The value of the output alias that ``head.field`` names first in ORDER BY and its like."""
    child: exp.Expr = column
    query = column.parent
    while query is not None and not isinstance(query, exp.Query):
        child, query = query, query.parent
    if query is None or child.arg_key not in _CLAUSES:
        return None
    return next((item.unalias() for item in output_items(query) if item.alias_or_name.lower() == head), None)


def _check_alias(column: exp.Column, alias: exp.Expr, ranges: list[_Source], owners: list[_Source]) -> None:
    """Refuse ``alias.field`` where FROM knows something else by that name."""
    source = (ranges or owners)[0]
    same = isinstance(alias, exp.Column) and alias.table in ("", source.label) and (source.is_unnest or not ranges)
    if not same or (isinstance(alias, exp.Column) and alias.name.lower() != column.parts[0].name.lower()):
        raise Refused(f"{column.parts[0].name} could be the alias or the table here; choose another alias", column)


def _common_table(table: exp.Table) -> exp.CTE | None:
    """The common table expression a table names: the nearest one that is written before it."""
    child: exp.Expr = table
    parent = table.parent
    while parent is not None:
        written = parent.args.get("with_") if isinstance(parent, exp.Query) else None
        held = parent.expressions if isinstance(parent, exp.With) else []
        if written is not None and written is not child:
            held = written.expressions
        found = None
        for common in held:
            if common is child:
                break
            if isinstance(common, exp.CTE) and common.alias.lower() == table.name.lower():
                found = common
        if found is not None:
            return found
        child, parent = parent, parent.parent
    return None
