"""How large a query is once its macros are expanded: a macro copies an argument as often as it names it.

``SUBSTR`` names its text three times, so thirty of them inside one another are 3**30 copies,
which DuckDB would make before it plans. Neither a time nor a memory limit reaches there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import sqlglot
from sqlglot import exp

from queries.duckdb_macros import MACROS

MAX_EXPANDED: Final = 60_000
"""Nodes: what DuckDB binds in about a second."""
_HEAD: Final = re.compile(r"(\w+)\(([^)]*)\)")


def expanded(tree: exp.Expr) -> float:
    """The number of nodes of a query for DuckDB with every macro expanded."""
    return _size(tree, {})


def _size(tree: exp.Expr, arguments: Mapping[str, float]) -> float:
    # Not by recursion: a sum of a thousand terms is a thousand deep.
    sizes: dict[int, float] = {}
    for node in reversed(list(tree.walk())):
        sizes[id(node)] = _one(node, [sizes[id(child)] for child in node.iter_expressions()], arguments)
    return sizes[id(tree)]


def _one(node: exp.Expr, inner: list[float], arguments: Mapping[str, float]) -> float:
    if isinstance(node, exp.Column) and not node.table and node.name in arguments:
        return arguments[node.name]
    macro = _macro(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    if macro is None:
        return 1 + sum(inner)
    base, times = macro
    return base + sum(count * size for count, size in zip(times, inner, strict=False))


@lru_cache(maxsize=512)
def _macro(name: str) -> tuple[float, tuple[float, ...]] | None:
    """Nodes of a macro without its arguments, and how often it copies each of them; ``None`` where it is none."""
    held = _BODIES.get(name)
    if held is None:
        return None
    parameters, body = held
    tree = sqlglot.parse_one(body, dialect="duckdb")
    nothing = dict.fromkeys(parameters, 0.0)
    base = _size(tree, nothing)
    return base, tuple(_size(tree, {**nothing, name: 1.0}) - base for name in parameters)


def _bodies() -> dict[str, tuple[tuple[str, ...], str]]:
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for head, body in MACROS.items():
        match = _HEAD.fullmatch(head)
        if match is None:
            raise ValueError("a macro's head is name(parameters)")
        found[match[1]] = (tuple(re.findall(r"\w+", match[2])), body)
    return found


_BODIES: Final = _bodies()
