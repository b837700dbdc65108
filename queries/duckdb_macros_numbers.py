"""Macros of numbers. A NUMERIC is DECIMAL(38, 9); its exact arithmetic counts units of the ninth decimal place."""

from __future__ import annotations

from typing import Final

from queries.duckdb_macros_text import failing, once

_WIDE: Final = "HUGEINT"
_E9: Final = "CAST(1000000000 AS HUGEINT)"
_E19: Final = "CAST('10000000000000000000' AS HUGEINT)"
_NUMERIC: Final = "DECIMAL(38, 9)"
_SMALL: Final = "BETWEEN -1000000000 AND 1000000000"
_UNITS: Final = {"a": "gsql_units(a)", "b": "gsql_units(b)"}
# Every term fits where the product does; what lies below the ninth place is rounded, halves away from zero.
_PRODUCT: Final = (
    f"gsql_of_units((v.a // {_E9}) * (v.b // {_E9}) * {_E9} + (v.a // {_E9}) * (v.b % {_E9}) "
    f"+ (v.a % {_E9}) * (v.b // {_E9}) + gsql_half(2 * (v.a % {_E9}) * (v.b % {_E9}) // {_E9}))"
)
_QUOTIENT: Final = "gsql_of_units(sign(v.a) * sign(v.b) * gsql_quotient(abs(v.a), abs(v.b)))"


def _safe_integers(operator: str) -> str:
    return f"try_cast(CAST(a AS HUGEINT) {operator} CAST(b AS HUGEINT) AS BIGINT)"


def _safe_floats(operator: str) -> str:
    return once({"r": f"a {operator} b"}, "CASE WHEN isfinite(v.r) THEN v.r END")


NUMBERS: Final[dict[str, str]] = {
    "gsql_finite(x)": "CASE WHEN NOT isfinite(x) THEN error('a FLOAT64 overflows') ELSE x END",
    # A NUMERIC in units of its ninth decimal place, and back.
    "gsql_units(x)": f"CAST(trunc(x) AS HUGEINT) * {_E9} "
    "+ CAST((x - trunc(x)) * CAST(1000000000 AS DECIMAL(10, 0)) AS HUGEINT)",
    "gsql_of_units(q)": f"CAST(CAST(q AS DECIMAL(38, 0)) * CAST('0.000000001' AS DECIMAL(10, 9)) AS {_NUMERIC})",
    # Half of a whole number, away from zero: the quotient of the doubled dividend rounds by it.
    "gsql_half(q)": "(q + sign(q)) // 2",
    # Whether a * x < b * y, where the products need more than 128 bits: each in two halves.
    "gsql_high_part(a, x)": f"a * (x // {_E19}) + a * (x % {_E19}) // {_E19}",
    "gsql_low_part(a, x)": f"a * (x % {_E19}) % {_E19}",
    "gsql_less(a, x, b, y)": "gsql_high_part(a, x) < gsql_high_part(b, y) "
    "OR (gsql_high_part(a, x) = gsql_high_part(b, y) AND gsql_low_part(a, x) < gsql_low_part(b, y))",
    # The remainder r of q in units, rounded: DOUBLE finds it within one, the exact products say which it is.
    "gsql_wide_fraction(r, q)": once(
        {"r": "r", "q": "q", "c": f"CAST(round(CAST(r AS DOUBLE) / CAST(q AS DOUBLE) * 1e9) AS {_WIDE})"},
        f"v.c + CASE WHEN NOT gsql_less(2 * {_E9}, v.r, 2 * v.c + 1, v.q) THEN 1 "
        f"WHEN gsql_less(2 * {_E9}, v.r, 2 * v.c - 1, v.q) THEN -1 ELSE 0 END",
    ),
    # The rounded quotient of positive units, in units. The remainder is scaled at once where that fits.
    "gsql_quotient(p, q)": f"(p // q) * {_E9} + CASE WHEN q < CAST('80000000000000000000000000000' AS {_WIDE}) "
    f"THEN ((p % q) * 2 * {_E9} // q + 1) // 2 ELSE gsql_wide_fraction(p % q, q) END",
    "gsql_div_numeric(a, b)": once(
        _UNITS, f"CASE WHEN v.b = 0 AND v.a IS NOT NULL THEN error('division by zero') ELSE {_QUOTIENT} END"
    ),
    "gsql_safe_div_numeric(a, b)": once(_UNITS, f"CASE WHEN v.b <> 0 THEN try({_QUOTIENT}) END"),
    "gsql_mul_numeric(a, b)": f"CASE WHEN a {_SMALL} AND b {_SMALL} THEN CAST(a * b AS {_NUMERIC}) "
    f"ELSE {once(_UNITS, _PRODUCT)} END",
    "gsql_avg_numeric(s, n)": "gsql_of_units(gsql_half(2 * gsql_units(s) // nullif(n, 0)))",
    "gsql_div(a, b)": "a // b",
    # The one quotient of integers that has no integer is no matter for its remainder.
    "gsql_mod(a, b)": "CASE WHEN b = -1 THEN a - a ELSE a % b END",
    "gsql_mod_numeric(a, b)": "a % b",
    "gsql_whole_div_numeric(a, b)": once(_UNITS, f"CAST(CAST(v.a // v.b AS DECIMAL(38, 0)) AS {_NUMERIC})"),
    "gsql_safe_add_int64(a, b)": _safe_integers("+"),
    "gsql_safe_subtract_int64(a, b)": _safe_integers("-"),
    "gsql_safe_multiply_int64(a, b)": _safe_integers("*"),
    "gsql_safe_negate_int64(a)": "try_cast(-CAST(a AS HUGEINT) AS BIGINT)",
    "gsql_safe_add_float64(a, b)": _safe_floats("+"),
    "gsql_safe_subtract_float64(a, b)": _safe_floats("-"),
    "gsql_safe_multiply_float64(a, b)": _safe_floats("*"),
    "gsql_safe_negate_float64(a)": "-a",
    "gsql_safe_div_float64(a, b)": once(
        {"a": "a", "b": "nullif(b, 0)"}, "CASE WHEN isfinite(v.a / v.b) THEN v.a / v.b END"
    ),
    "gsql_safe_add_numeric(a, b)": once({"a": "a", "b": "b"}, "try(v.a + v.b)"),
    "gsql_safe_subtract_numeric(a, b)": once({"a": "a", "b": "b"}, "try(v.a - v.b)"),
    "gsql_safe_multiply_numeric(a, b)": once(_UNITS, f"try({_PRODUCT})"),
    "gsql_safe_negate_numeric(a)": "-a",
    # Digits below what a FLOAT64 of this size has are its own; TRUNC cuts the exact digits of the FLOAT64.
    "gsql_round_float(x, n)": "CASE WHEN abs(x) >= 9007199254740992.0 / pow(10.0, n) THEN x ELSE round(x, n) END",
    "gsql_trunc_float(x, n)": "CASE WHEN NOT isfinite(x) THEN x "
    "ELSE CAST(left(format('{:.60f}', x), strpos(format('{:.60f}', x), '.') + n) AS DOUBLE) END",
    "gsql_bit_count(x)": "CAST(bit_count(x) AS BIGINT)",
    # Every value is computed, also beside a NULL.
    "gsql_greatest(a)": once({"a": "a"}, "CASE WHEN list_count(v.a) = len(v.a) THEN list_max(v.a) END"),
    "gsql_least(a)": once({"a": "a"}, "CASE WHEN list_count(v.a) = len(v.a) THEN list_min(v.a) END"),
    "gsql_pi()": "pi()",
    **failing("ln", "x", "CASE WHEN x > 0 THEN ln(x) END", "a logarithm takes a positive number"),
    **failing("log10", "x", "CASE WHEN x > 0 THEN log10(x) END", "a logarithm takes a positive number"),
    **failing(
        "log",
        "x, b",
        "CASE WHEN x > 0 AND b > 0 AND b <> 1 THEN ln(x) / ln(b) END",
        "a logarithm takes positive numbers and no base of 1",
    ),
    **failing("sqrt", "x", "CASE WHEN x >= 0 THEN sqrt(x) END", "SQRT takes no negative number"),
    **{f"gsql_{name}(x)": f"{name}(x)" for name in ("acos", "asin", "atan", "cos", "sin", "tan", "tanh")},
    **{f"gsql_{name}(x)": f"gsql_finite({name}(x))" for name in ("cosh", "sinh")},
    "gsql_atan2(y, x)": "atan2(y, x)",
}
