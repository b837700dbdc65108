"""Macros that give DuckDB GoogleSQL's meaning; they live in every database file that is built.

``error()`` texts are fixed: they never hold a value.
"""

from __future__ import annotations

import re
from typing import Final

from queries.duckdb_guards import GUARDS
from queries.duckdb_macros_casts import CASTS
from queries.duckdb_macros_moments import MOMENTS
from queries.duckdb_macros_nested import NESTED
from queries.duckdb_macros_numbers import NUMBERS
from queries.duckdb_macros_text import TEXT

_USED: Final = re.compile(r"\b(gsql_\w+)\(")
MACROS: Final[dict[str, str]] = {**GUARDS, **NESTED, **NUMBERS, **TEXT, **MOMENTS, **CASTS}


def macro_statements() -> list[str]:
    """``CREATE MACRO`` statements in an order in which each finds those it uses."""
    heads = {head.partition("(")[0]: head for head in MACROS}
    ordered: dict[str, str] = {}

    def place(head: str) -> None:
        for name in _USED.findall(MACROS[head]):
            if heads[name] not in ordered and heads[name] != head:
                place(heads[name])
        ordered[head] = f"CREATE MACRO {head} AS {MACROS[head]}"

    for head in MACROS:
        if head not in ordered:
            place(head)
    return list(ordered.values())
