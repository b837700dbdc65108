"""Macros that give DuckDB GoogleSQL's meaning; they live in every database file that is built.

``error()`` texts are fixed: they never hold a value.
"""

from __future__ import annotations

from typing import Final

from queries.duckdb_guards import GUARDS
from queries.duckdb_macros_casts import CASTS
from queries.duckdb_macros_moments import MOMENTS
from queries.duckdb_macros_nested import NESTED
from queries.duckdb_macros_numbers import NUMBERS
from queries.duckdb_macros_text import TEXT

MACROS: Final[dict[str, str]] = {**GUARDS, **NESTED, **NUMBERS, **TEXT, **MOMENTS, **CASTS}


def macro_statements() -> list[str]:
    """``CREATE MACRO`` statements in an order in which each finds those it uses."""
    return [f"CREATE MACRO {head} AS {body}" for head, body in MACROS.items()]
