"""Names: which base table, column or alias each name of a template is, settled once at load.

Scopes are walked after ``qualify`` only, and what a table node is stays on the node itself
(``base_table``), so that governing never looks a table up by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from contract.schema import Table
from queries.errors import Refused
from queries.names import ALIAS, check_settled, named_columns, output_names, settle_names
from queries.supplied import SuppliedRelation
from queries.typed import declared_type
from queries.unresolved import place, unresolved

_BASE: Final = "base_table"
_COLUMNS: Final = "base_columns"
_SUPPLIED: Final = "supplied_relation"
_TAKEN: Final = "a declared table, dataset or project"
_JOINS: Final = ("", "INNER", "CROSS", "OUTER")
Relation = Table | SuppliedRelation


@dataclass(frozen=True, slots=True)
class Resolved:
    """A qualified query, its scopes innermost first, the ``table.column`` names and supplied columns it reads."""

    tree: exp.Query
    scopes: tuple[Scope, ...]
    columns: frozenset[str]
    tables: frozenset[str]
    supplied: frozenset[str] | None  # ``None`` where it does not read the supplied relation at all

    def reading(self, table: str, column: str) -> exp.Expr | None:
        """The first node that reads a column of a base table."""
        found = [
            node
            for scope in self.scopes
            for node in scope.columns
            if node.name == column and _is_table(scope.sources.get(node.table), table)
        ]
        return min(found, key=place, default=None)


def resolve(tree: exp.Query, relations: Sequence[Relation], reserved: Collection[str] = ()) -> Resolved:
    """Qualify ``tree`` over ``relations``. Raises ``Refused`` for a name that is not settled.

    ``reserved`` are names of datasets and projects, which no alias may have.
    """
    declared = {relation.name: relation for relation in relations}
    _check_sources(tree, declared, {name.lower() for name in reserved})
    for select in tree.find_all(exp.Select):
        _check_projections(select)
    for query in [tree, *tree.find_all(exp.Select, exp.SetOperation)]:
        _number_aliases(query)
    shared = settle_names(tree, declared)
    schema: dict[str, object] = {
        relation.name: {column.name: str(declared_type(column)) for column in relation.columns}
        for relation in relations
    }
    try:
        tree = qualify(
            tree,
            schema=schema,
            dialect="bigquery",
            expand_alias_refs=False,
            expand_stars=False,
            validate_qualify_columns=True,
        )
    except SqlglotError as error:
        raise unresolved(error, tree, declared) from error
    for query in [tree, *tree.find_all(exp.Select, exp.SetOperation)]:
        _settle_aliases(query)
    check_settled(tree, shared)
    scopes = tuple(traverse_scope(tree))
    nodes = _mark_tables(tree, scopes, declared)
    supplied = [node for node in nodes if is_supplied(node)]
    return Resolved(
        tree=tree,
        scopes=scopes,
        columns=frozenset(f"{node.name}.{name}" for node in nodes if base_table(node) for name in base_columns(node)),
        tables=frozenset(node.name for node in nodes if base_table(node)),
        supplied=frozenset(name for node in supplied for name in base_columns(node)) if supplied else None,
    )


def base_table(node: exp.Table) -> str | None:
    """The declared table a node reads, or ``None`` for a common table expression or the supplied relation."""
    name = node.meta.get(_BASE)
    return str(name) if name else None


def is_supplied(node: exp.Table) -> bool:
    """Whether a node reads the supplied relation."""
    return bool(node.meta.get(_SUPPLIED, False))


def base_columns(node: exp.Table) -> tuple[str, ...]:
    """The columns the query names of a base table's or the supplied relation's node, sorted."""
    return tuple(node.meta[_COLUMNS])


def _check_sources(tree: exp.Query, declared: Mapping[str, Relation], reserved: set[str]) -> None:
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    taken = {name.lower() for name in declared} | reserved
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() in taken:
            raise Refused(f"WITH {cte.alias} has the name of {_TAKEN}", cte)
    for table in tree.find_all(exp.Table):
        if table.name not in declared and table.name.lower() not in ctes:
            raise Refused(f"table {table.name} is not declared by the dataset", table)
        alias = table.alias
        if alias and alias.lower() in taken and alias != table.name:
            raise Refused(f"the alias {alias} has the name of {_TAKEN}", table)
    for join in tree.find_all(exp.Join):
        if join.text("kind").upper() not in _JOINS:
            raise Refused(f"a {join.text('kind')} JOIN is not accepted", join)
        if isinstance(join.this, exp.Unnest):
            _check_unnest_join(join)
        elif join.text("kind").upper() != "CROSS" and not join.args.get("on") and not join.args.get("using"):
            raise Refused("a JOIN needs ON or USING; or write CROSS JOIN", join)
    for unnest in tree.find_all(exp.Unnest):
        alias = unnest.args["alias"].columns[0].name if isinstance(unnest.parent, (exp.From, exp.Join)) else ""
        if alias.lower() in taken:
            raise Refused(f"the alias {alias} has the name of {_TAKEN}", unnest)
    for derived in tree.find_all(exp.Subquery):
        if isinstance(derived.parent, (exp.From, exp.Join)):
            if not derived.alias:
                raise Refused("a query in FROM needs an alias", derived)
            if derived.alias.lower() in taken:
                raise Refused(f"the alias {derived.alias} has the name of {_TAKEN}", derived)


def _check_unnest_join(join: exp.Join) -> None:
    if join.args.get("side") in ("RIGHT", "FULL"):
        raise Refused(f"a {join.args['side']} JOIN with UNNEST is not accepted", join)
    if join.args.get("using"):
        raise Refused("USING is not accepted with UNNEST; write ON", join)


def _check_projections(select: exp.Select) -> None:
    names = set()
    structs = select.args.get("kind") is not None
    needs_name = structs or not _is_value_query(select)
    if structs and not _is_value_query(select):
        raise Refused("SELECT AS STRUCT is accepted in ARRAY(…) and in a query used as a value only", select)
    for item in select.expressions:
        if needs_name and not isinstance(item, (exp.Alias, exp.Column)):
            raise Refused("an output column that is an expression needs an alias", item)
        name = item.alias_or_name.lower()
        if name in names and needs_name:
            raise Refused(f"two output columns are named {name}", item)
        names.add(name)
    if not needs_name and not isinstance(select.parent, exp.Exists) and len(select.expressions) != 1:
        raise Refused("a query used as a value has one column", select)


def _is_value_query(select: exp.Select) -> bool:
    """Whether a SELECT stands in EXISTS, IN, ARRAY or as a scalar, where output names do not matter."""
    parent = select.parent
    if isinstance(parent, (exp.Exists, exp.Array)):
        return True
    return isinstance(parent, exp.Subquery) and not isinstance(parent.parent, (exp.From, exp.Join))


def _aliases(query: exp.Expr) -> dict[str, int]:
    return {name: index for index, name in enumerate(output_names(query), start=1) if name}


def _order_terms(query: exp.Expr) -> Iterator[exp.Expr]:
    order = query.args.get("order")
    if order is not None:
        for item in order.expressions:
            yield item.this if isinstance(item, exp.Ordered) else item


def _group_terms(query: exp.Expr) -> Iterator[exp.Expr]:
    group = query.args.get("group")
    if group is not None:
        yield from group.expressions


def _number_aliases(query: exp.Expr) -> None:
    """Replace a bare alias in GROUP BY and ORDER BY by its number; remember the other uses.

    GoogleSQL takes the alias where a column has the same name, DuckDB the column.
    """
    aliases = _aliases(query)
    for term in [*_group_terms(query), *_order_terms(query)]:
        if isinstance(term, exp.Column) and not term.table and term.name.lower() in aliases:
            number = exp.Literal.number(aliases[term.name.lower()])
            number.meta.update(term.this.meta)
            term.replace(number)
    for clause in ("group", "order", "having", "qualify"):
        held = query.args.get(clause)
        for column in held.find_all(exp.Column) if held is not None else ():
            if not column.table and column.name.lower() in aliases and column.parent_select is query:
                column.meta[ALIAS] = column.name.lower()


def _settle_aliases(query: exp.Expr) -> None:
    """After ``qualify``: numbers where it spelled an alias, expressions in HAVING and QUALIFY."""
    aliases = _aliases(query)
    values = [item.unalias() for item in query.expressions] if isinstance(query, exp.Select) else []
    for term in [*_group_terms(query), *_order_terms(query)]:
        if isinstance(term, exp.Column) and not term.table and term.name.lower() in aliases:
            term.replace(exp.Literal.number(aliases[term.name.lower()]))
    for term in _group_terms(query):
        # ``qualify`` spells numbers out; an engine that binds a parameter twice then sees two expressions.
        if not isinstance(term, (exp.Literal, exp.Column)) and term in values:
            term.replace(exp.Literal.number(values.index(term) + 1))
    if not isinstance(query, exp.Select):
        return  # what a set operation is ordered by is a number by now
    for clause in ("group", "order", "having", "qualify"):
        held = query.args.get(clause)
        for column in list(held.find_all(exp.Column)) if held is not None else ():
            name = column.meta.get(ALIAS)
            if name is None:
                continue
            item = query.expressions[aliases[name] - 1].unalias()
            if column.table and column == item:
                continue
            if column.table or clause == "group":
                raise Refused(f"{name} could be the alias or a column here; write the expression out", column)
            column.replace(exp.paren(item.copy()))


def _mark_tables(tree: exp.Query, scopes: Sequence[Scope], declared: Mapping[str, Relation]) -> list[exp.Table]:
    base: dict[int, exp.Table] = {}
    common: set[int] = set()
    needed: dict[int, set[str]] = {}
    for scope in scopes:
        base.update({id(node): node for node in scope.sources.values() if isinstance(node, exp.Table)})
        for node, source in scope.selected_sources.values():
            if isinstance(node, exp.Table) and isinstance(source, Scope):
                common.add(id(node))
        for column in scope.columns:
            held = scope.sources.get(column.table)
            if column.table and isinstance(held, exp.Table):
                needed.setdefault(id(held), set()).add(column.name)
    for column in tree.find_all(exp.Column):
        if not column.table:
            raise Refused(f"{column.name} is neither a column nor an output alias here", column)
    for node in tree.find_all(exp.Table):
        if (id(node) in base) == (id(node) in common):
            raise Refused(f"table {node.name} is not accounted for", node)
    for key, node in base.items():
        _mark_table(node, needed.get(key, set()), declared)
    return list(base.values())


def _mark_table(node: exp.Table, columns: set[str], declared: Mapping[str, Relation]) -> None:
    table = declared.get(node.name)
    if table is None or tuple(part.name for part in node.parts) != (table.name,):
        raise Refused(f"table {node.name} is not declared by the dataset", node)
    for name in columns:
        if table.column(name) is None:
            raise Refused(f"table {table.name} has no column {name}", node)
    if not named_columns(node) <= columns:
        raise Refused(f"a column of table {node.name} is not accounted for", node)
    node.meta[_BASE if isinstance(table, Table) else _SUPPLIED] = table.name
    node.meta[_COLUMNS] = tuple(sorted(columns))


def _is_table(source: object, name: str) -> bool:
    return isinstance(source, exp.Table) and source.name == name
