"""Macros that give DuckDB GoogleSQL's meaning; they live in every database file that is built.

``error()`` texts are fixed: they never hold a value.
"""

from __future__ import annotations

from typing import Final

from queries.duckdb_guards import GUARDS
from queries.duckdb_macros_nested import NESTED

_WHITE: Final = "".join(
    map(
        chr,
        [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000],
    )
)
_E9: Final = "1000000000"

MACROS: Final[dict[str, str]] = {
    **GUARDS,
    **NESTED,
    "gsql_finite(x)": "CASE WHEN NOT isfinite(x) THEN error('a FLOAT64 overflows') ELSE x END",
    # A NUMERIC in units of its ninth decimal place, and back.
    "gsql_units(x)": f"CAST(x * CAST({_E9} AS DECIMAL(10, 0)) AS HUGEINT)",
    "gsql_of_units(q)": "CAST(CAST(q AS DECIMAL(38, 0)) * CAST('0.000000001' AS DECIMAL(10, 9)) AS DECIMAL(38, 9))",
    # Half of a whole number, away from zero: the quotient of the doubled dividend rounds by it.
    "gsql_half(q)": "(q + sign(q)) // 2",
    "gsql_div_numeric(a, b)": f"gsql_of_units(gsql_half(2 * gsql_units(a) * {_E9} // gsql_units(b)))",
    "gsql_avg_numeric(s, n)": "gsql_of_units(gsql_half(2 * gsql_units(s) // nullif(n, 0)))",
    "gsql_div(a, b)": "a // b",
    "gsql_mod(a, b)": "a % b",
    "gsql_trim(x)": f"trim(x, '{_WHITE}')",
    "gsql_ltrim(x)": f"ltrim(x, '{_WHITE}')",
    "gsql_rtrim(x)": f"rtrim(x, '{_WHITE}')",
    # Positions before the text clamp to its start; 0 counts as 1.
    "gsql_start(x, p)": "CASE WHEN p > 0 THEN p WHEN p = 0 OR p < -length(x) THEN 1 ELSE length(x) + p + 1 END",
    "gsql_substr(x, p)": "substr(x, gsql_start(x, p))",
    "gsql_substr_n(x, p, n)": "CASE WHEN n < 0 THEN error('SUBSTR of a negative length') "
    "ELSE substr(x, gsql_start(x, p), CASE WHEN n < 0 THEN 0 ELSE n END) END",
    "gsql_left(x, n)": "CASE WHEN n < 0 THEN error('LEFT of a negative length') ELSE left(x, CASE WHEN n < 0 THEN 0 ELSE n END) END",
    "gsql_right(x, n)": "CASE WHEN n < 0 THEN error('RIGHT of a negative length') ELSE right(x, CASE WHEN n < 0 THEN 0 ELSE n END) END",
    "gsql_numeric_text(x)": "rtrim(rtrim(CAST(x AS VARCHAR), '0'), '.')",
    "gsql_date(d)": "CASE WHEN d > DATE '9999-12-31' OR d < DATE '0001-01-01' THEN error('a date is out of range') "
    "ELSE CAST(d AS DATE) END",
    "gsql_moment(t)": "CASE WHEN t >= TIMESTAMPTZ '10000-01-01 00:00:00+00' OR t < TIMESTAMPTZ '0001-01-01 00:00:00+00' "
    "THEN error('a timestamp is out of range') ELSE t END",
    "gsql_date_parts(y, m, d)": "gsql_date(make_date(y, m, d))",
    # Days since Monday 0001-01-01; weeks from Sunday start one day earlier.
    "gsql_days(d)": "date_diff('day', DATE '0001-01-01', d)",
    "gsql_floor_div(a, b)": "CASE WHEN a >= 0 THEN a // b ELSE -((-a + b - 1) // b) END",
    # Weeks of the year that start on the given first day; days before the first one are week 0.
    "gsql_week(d, first)": "(dayofyear(d) + 6 - (dayofweek(d) - first + 7) % 7) // 7",
    "gsql_mask_text(k, x)": "CASE WHEN x IS NULL THEN NULL ELSE substr(sha256(k || x), 1, 32) END",
    "gsql_mask_int(k, x)": "CASE WHEN x IS NULL THEN NULL "
    "ELSE CAST('0x' || substr(sha256(k || CAST(x AS VARCHAR)), 1, 15) AS BIGINT) END",
    "gsql_mask_short(x)": "substr(x, 1, least(4, length(x) // 2))",
}


def macro_statements() -> list[str]:
    """``CREATE MACRO`` statements in an order in which each finds those it uses."""
    return [f"CREATE MACRO {head} AS {body}" for head, body in MACROS.items()]
