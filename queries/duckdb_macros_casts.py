"""Macros of conversions between text and numbers."""

from __future__ import annotations

from typing import Final

from queries.duckdb_macros_text import SPACE, failing, once

_NUMERIC: Final = "DECIMAL(38, 9)"
_DECIMAL: Final = f"'^{SPACE}[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?{SPACE}$'"
_INTEGER: Final = f"'^{SPACE}[+-]?[0-9]+{SPACE}$'"
_HEXADECIMAL: Final = f"'^{SPACE}[+-]?0[xX][0-9a-fA-F]+{SPACE}$'"
_OTHER_FLOATS: Final = f"'^{SPACE}[+-]?((?i:inf|infinity|nan)|0[xX][0-9a-fA-F.]+([pP][+-]?[0-9]+)?){SPACE}$'"
_TRIMMED: Final = "trim(x, ' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13))"
# The digits of a hexadecimal number, its sign put before them.
_SIGNED: Final = (
    "CASE WHEN left(v.t, 1) = '-' THEN -1 ELSE 1 END * "
    "try_cast('0x' || regexp_replace(v.t, '^[+-]?0[xX]0*([0-9a-fA-F])', '\\1') AS HUGEINT)"
)
_FRACTION: Final = "(x - trunc(x)) * 1000000000"
_EXACT_TEXT: Final = "format('{:.40f}', x)"

CASTS: Final[dict[str, str]] = {
    **failing(
        "int64_of_text",
        "x",
        f"CASE WHEN regexp_matches(x, {_INTEGER}) THEN try_cast({_TRIMMED} AS BIGINT) "
        f"WHEN regexp_matches(x, {_HEXADECIMAL}) THEN {once({'t': _TRIMMED}, f'try_cast({_SIGNED} AS BIGINT)')} END",
        "a text is not an INT64",
    ),
    # An infinity in text has no place here, and a text that overflows is one: both fail, also under SAFE_CAST.
    "gsql_safe_float64_of_text(x)": f"CASE WHEN regexp_matches(x, {_DECIMAL}) "
    f"THEN gsql_finite(coalesce(try_cast({_TRIMMED} AS DOUBLE), 'inf')) "
    f"WHEN regexp_matches(x, {_OTHER_FLOATS}) THEN error('a text is no decimal number') END",
    "gsql_float64_of_text(x)": "coalesce(gsql_safe_float64_of_text(x), "
    "CASE WHEN x IS NOT NULL THEN error('a text is not a FLOAT64') END)",
    # Digits below the ninth place are rounded; with a negative exponent engines round them in different ways.
    "gsql_safe_numeric_of_text(x)": f"CASE WHEN regexp_matches(x, '[eE]-') AND regexp_matches(x, {_DECIMAL}) "
    "THEN error('a NUMERIC in text has no negative exponent') "
    f"WHEN regexp_matches(x, {_DECIMAL}) THEN try_cast({_TRIMMED} AS {_NUMERIC}) END",
    "gsql_numeric_of_text(x)": "coalesce(gsql_safe_numeric_of_text(x), "
    "CASE WHEN x IS NOT NULL THEN error('a text is not a NUMERIC') END)",
    **failing(
        "bool_of_text",
        "x",
        "CASE WHEN lower(x) = 'true' THEN TRUE WHEN lower(x) = 'false' THEN FALSE END",
        "a text is not a BOOL",
    ),
    **failing("text_of_bytes", "x", once({"x": "x"}, "try(decode(v.x))"), "bytes are not UTF-8"),
    **failing("int64_of_float64", "x", "try_cast(round(x) AS BIGINT)", "a FLOAT64 is no INT64"),
    **failing("int64_of_numeric", "x", "try_cast(x AS BIGINT)", "a NUMERIC is no INT64"),
    # Scaling a fraction is exact enough unless it lies near a half; then, and for large numbers, all digits are read.
    **failing(
        "numeric_of_float64",
        "x",
        f"CASE WHEN abs(x) < 1e15 AND abs(abs({_FRACTION} - trunc({_FRACTION})) - 0.5) > 0.001 "
        f"THEN CAST(trunc(x) AS {_NUMERIC}) + CAST(CAST(round({_FRACTION}) AS BIGINT) AS DECIMAL(19, 0)) "
        f"* CAST('0.000000001' AS DECIMAL(10, 9)) ELSE try_cast({_EXACT_TEXT} AS {_NUMERIC}) END",
        "a FLOAT64 is no NUMERIC",
    ),
    "gsql_text_of_numeric(x)": "rtrim(rtrim(CAST(x AS VARCHAR), '0'), '.')",
    "gsql_float64_of_numeric(x)": "CAST(CAST(x AS VARCHAR) AS DOUBLE)",
    # Fifteen digits where they say it all, else seventeen.
    "gsql_text_of_float64(x)": "CASE WHEN x = 0 THEN '0' WHEN CAST(format('{:.15g}', x) AS DOUBLE) = x "
    "THEN format('{:.15g}', x) ELSE format('{:.17g}', x) END",
}
