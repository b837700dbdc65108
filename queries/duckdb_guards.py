"""Macros for functions whose one call could make a value of any size: the size is checked before the value is made.

Neither DuckDB's memory limit nor an interrupt reaches inside one scalar call. A guard therefore
stands in the *argument* that decides the size, never around the call: constant arguments are
folded from the inside out when a query is planned, and an unguarded call would be made there.

A text is named once, inside a lambda: a macro copies an argument as often as it names it, and
calls inside calls would multiply. The bounds are per value. What many values of that size need is bounded by the worker process,
in which every template with such a function runs (``growth``). ``error()`` texts hold no value.
"""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 2**20
"""Bytes of a text that REPEAT, LPAD, RPAD and REPLACE make: GoogleSQL's own bound of 1 MB."""
MAX_ELEMENTS: Final = 1_000_000
"""Elements of an array that GENERATE_ARRAY and its kin make."""

_TEXT: Final = "error('a text is longer than 1 MB')"
_ARRAY: Final = f"error('an array has more than {MAX_ELEMENTS} elements')"
_STEP: Final = "error('the step of an array is zero')"
_OCCURRENCES: Final = "(strlen(v) - strlen(replace(v, a, ''))) // nullif(strlen(a), 0)"

GUARDS: Final[dict[str, str]] = {
    # A number of bytes or characters, and of elements, that passes only where it is small enough.
    "gsql_text_size(n)": f"CASE WHEN n > {MAX_TEXT} THEN {_TEXT} ELSE n END",
    "gsql_array_size(n)": f"CASE WHEN n > {MAX_ELEMENTS} THEN {_ARRAY} ELSE n END",
    "gsql_repeat(x, n)": "list_transform([x], lambda v: repeat(v, "
    "CASE WHEN n < 0 AND v IS NOT NULL THEN error('REPEAT a negative number of times') "
    f"WHEN strlen(v) > 0 AND n > {MAX_TEXT} // strlen(v) THEN {_TEXT} WHEN strlen(v) = 0 THEN 0 ELSE n END))[1]",
    "gsql_pad_size(n)": "CAST(CASE WHEN n < 0 THEN error('a text is padded to a negative length') "
    "ELSE gsql_text_size(n) END AS INTEGER)",
    "gsql_pad_with(p)": "CASE WHEN p = '' THEN error('a text is padded with nothing') ELSE p END",
    "gsql_lpad(x, n, p)": "list_transform([x], lambda v: lpad(v, gsql_pad_size(CASE WHEN v IS NOT NULL "
    "AND p IS NOT NULL THEN n END), gsql_pad_with(CASE WHEN v IS NOT NULL AND n IS NOT NULL THEN p END)))[1]",
    "gsql_rpad(x, n, p)": "list_transform([x], lambda v: rpad(v, gsql_pad_size(CASE WHEN v IS NOT NULL "
    "AND p IS NOT NULL THEN n END), gsql_pad_with(CASE WHEN v IS NOT NULL AND n IS NOT NULL THEN p END)))[1]",
    # Most texts are short, so the occurrences are counted only where it matters.
    "gsql_replace(x, a, b)": "list_transform([x], lambda v: replace(v, a, "
    f"CASE WHEN strlen(v) * strlen(b) <= {MAX_TEXT} THEN b "
    f"WHEN strlen(v) + {_OCCURRENCES} * (strlen(b) - strlen(a)) > {MAX_TEXT} THEN {_TEXT} ELSE b END))[1]",
    # Both bounds count; the difference of two INT64 needs more than 64 bits.
    "gsql_generate_array(a, b, s)": f"generate_series(a, b, CASE WHEN s = 0 THEN {_STEP} "
    f"WHEN (CAST(b AS HUGEINT) - CAST(a AS HUGEINT)) // s >= {MAX_ELEMENTS} THEN {_ARRAY} ELSE s END)",
    "gsql_generate_days(a, b, n)": "list_transform(generate_series(CAST(a AS TIMESTAMP), CAST(b AS TIMESTAMP), "
    f"to_days(CAST(CASE WHEN n = 0 THEN {_STEP} WHEN n IS NULL THEN NULL WHEN date_diff('day', CAST(a AS DATE), CAST(b AS DATE)) // n >= {MAX_ELEMENTS} THEN {_ARRAY} "
    "ELSE greatest(least(n, 4000000), -4000000) END AS INTEGER))), lambda d: CAST(d AS DATE))",
    # As GoogleSQL does, the engine counts each element from the one before, so that a 31st does not come back
    # after a shorter month. No two dates are MAX_ELEMENTS months apart.
    "gsql_generate_months(a, b, n)": "list_transform(generate_series(CAST(a AS TIMESTAMP), CAST(b AS TIMESTAMP), "
    f"to_months(CAST(CASE WHEN n = 0 THEN {_STEP} WHEN n IS NULL THEN NULL ELSE greatest(least(n, 200000), -200000) END AS INTEGER))), lambda d: CAST(d AS DATE))",
    "gsql_generate_moments(a, b, us)": "list_transform(gsql_generate_array(epoch_us(a), epoch_us(b), us), "
    "lambda i: make_timestamptz(i))",
}
