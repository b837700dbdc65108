"""Shapes of a query that the parser reads and GoogleSQL refuses: found in the tree, before its names are settled."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from queries.errors import Refused

RESERVED: Final = frozenset({
    "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "ASSERT_ROWS_MODIFIED", "BETWEEN", "BY", "CASE", "CAST", "COLLATE", "CONTAINS",
    "CREATE", "CROSS", "CUBE", "CURRENT", "DEFAULT", "DEFINE", "DESC", "DISTINCT", "ELSE", "END", "ENUM", "ESCAPE", "EXCEPT",
    "EXCLUDE", "EXISTS", "EXTRACT", "FALSE", "FETCH", "FOLLOWING", "FOR", "FROM", "FULL", "GROUP", "GROUPING", "GROUPS", "HASH",
    "HAVING", "IF", "IGNORE", "IN", "INNER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT",
    "LOOKUP", "MERGE", "NATURAL", "NEW", "NO", "NOT", "NULL", "NULLS", "OF", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION",
    "PRECEDING", "PROTO", "QUALIFY", "RANGE", "RECURSIVE", "RESPECT", "RIGHT", "ROLLUP", "ROWS", "SELECT", "SET", "SOME", "STRUCT",
    "TABLESAMPLE", "THEN", "TO", "TREAT", "TRUE", "UNBOUNDED", "UNION", "UNNEST", "USING", "WHEN", "WHERE", "WINDOW", "WITH",
    "WITHIN",
})  # fmt: skip
"""BigQuery's reserved words, but AT, which is a name wherever no time zone follows it."""


def check_shapes(sql: str, tree: exp.Expr) -> None:
    """Raises ``Refused`` for a reserved word as a name, and for clauses that do not go together."""
    for node in tree.walk():
        if isinstance(node, exp.Identifier):
            _check_name(sql, node)
        if isinstance(node, exp.Query):
            _check_clauses(node)


def _check_name(sql: str, node: exp.Identifier) -> None:
    if node.args.get("quoted") or node.name.upper() not in RESERVED or "start" not in node.meta:
        return
    if not sql[: node.meta["start"]].rstrip().endswith("."):
        raise Refused(f"{node.name.upper()} is a reserved word; write it in back-ticks", node)


def _check_clauses(query: exp.Query) -> None:
    if query.args.get("offset") is not None and query.args.get("limit") is None:
        raise Refused("OFFSET comes after LIMIT", query.args["offset"])
    for clause in ("order", "group"):
        held = query.args.get(clause)
        for item in held.expressions if held is not None else ():
            term = item.this if isinstance(item, exp.Ordered) else item
            if isinstance(term, exp.Literal) and not term.is_string and term.name.isdigit() and int(term.name) < 1:
                raise Refused("a number in GROUP BY or ORDER BY is that of an output column", term)
    if isinstance(query, exp.Select) and query.args.get("from_") is None:
        for clause in ("where", "group", "having", "qualify", "order"):
            if query.args.get(clause) is not None:
                raise Refused(f"a query without FROM has no {clause.upper()}", query.args[clause])
