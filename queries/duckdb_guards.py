"""Macros for functions whose one call could make a value of any size: the size is checked before the value is made.

Neither DuckDB's memory limit nor an interrupt reaches inside one scalar call. A guard therefore
stands in the *argument* that decides the size, never around the call: constant arguments are
folded from the inside out when a query is planned, and an unguarded call would be made there.

The bounds are per value. What many values of that size need is bounded by the worker process,
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
_OCCURRENCES: Final = "(strlen(x) - strlen(replace(x, a, ''))) // nullif(strlen(a), 0)"

GUARDS: Final[dict[str, str]] = {
    # A number of bytes or characters, and of elements, that passes only where it is small enough.
    "gsql_text_size(n)": f"CASE WHEN n > {MAX_TEXT} THEN {_TEXT} ELSE n END",
    "gsql_array_size(n)": f"CASE WHEN n > {MAX_ELEMENTS} THEN {_ARRAY} ELSE n END",
    "gsql_repeat(x, n)": "repeat(x, CASE WHEN n < 0 THEN error('REPEAT a negative number of times') "
    f"WHEN strlen(x) > 0 AND n > {MAX_TEXT} // strlen(x) THEN {_TEXT} WHEN strlen(x) = 0 THEN 0 ELSE n END)",
    "gsql_pad_size(n)": "CAST(CASE WHEN n < 0 THEN error('a text is padded to a negative length') "
    "ELSE gsql_text_size(n) END AS INTEGER)",
    "gsql_pad_with(p)": "CASE WHEN p = '' THEN error('a text is padded with nothing') ELSE p END",
    "gsql_lpad(x, n, p)": "lpad(x, gsql_pad_size(n), gsql_pad_with(p))",
    "gsql_rpad(x, n, p)": "rpad(x, gsql_pad_size(n), gsql_pad_with(p))",
    # Most texts are short, so the occurrences are counted only where it matters.
    "gsql_replace(x, a, b)": f"replace(x, a, CASE WHEN strlen(x) * strlen(b) <= {MAX_TEXT} THEN b "
    f"WHEN strlen(x) + {_OCCURRENCES} * (strlen(b) - strlen(a)) > {MAX_TEXT} THEN {_TEXT} ELSE b END)",
    # Both bounds count; the difference of two INT64 needs more than 64 bits.
    "gsql_generate_array(a, b, s)": "generate_series(a, b, CASE WHEN s = 0 THEN error('the step of an array is zero') "
    f"WHEN (CAST(b AS HUGEINT) - CAST(a AS HUGEINT)) // s >= {MAX_ELEMENTS} THEN {_ARRAY} ELSE s END)",
    "gsql_generate_days(a, b, n)": "list_transform(gsql_generate_array(0, CAST(b - a AS BIGINT), n), "
    "lambda i: CAST(CAST(a AS DATE) + to_days(CAST(i AS INTEGER)) AS DATE))",
    # GoogleSQL counts each element from the one before, so that a 31st would not come back after a shorter month.
    "gsql_generate_months(a, b, n)": "list_filter(list_transform(gsql_generate_array("
    "CASE WHEN day(a) > 28 AND (n % 12 <> 0 OR month(a) = 2) THEN error('months are counted from a day up to the 28th') "
    "ELSE 0 END, date_diff('month', a, b), n), lambda i: CAST(CAST(a AS DATE) + to_months(CAST(i AS INTEGER)) AS DATE)), "
    "lambda d: CASE WHEN n > 0 THEN d <= b ELSE d >= b END)",
    "gsql_generate_moments(a, b, us)": "list_transform(gsql_generate_array(epoch_us(a), epoch_us(b), us), "
    "lambda i: make_timestamptz(i))",
}
