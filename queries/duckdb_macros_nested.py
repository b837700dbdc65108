"""Macros for arrays, with GoogleSQL's answers to NULL and to subscripts out of range."""

from __future__ import annotations

from typing import Final

# No list is that long, so what is above it is out of range too, and one more is still a number.
_LAST: Final = 2_147_483_646
_RANGE: Final = "error('an array subscript is out of range')"

NESTED: Final[dict[str, str]] = {
    "gsql_offset(a, i)": f"CASE WHEN a IS NOT NULL AND (i < 0 OR i >= len(a)) THEN {_RANGE} "
    f"ELSE list_extract(a, CASE WHEN i >= 0 THEN least(i, {_LAST}) + 1 END) END",
    "gsql_ordinal(a, i)": f"CASE WHEN a IS NOT NULL AND (i < 1 OR i > len(a)) THEN {_RANGE} ELSE list_extract(a, i) END",
    # A position before the first would count from the end.
    "gsql_safe_offset(a, i)": f"list_extract(a, CASE WHEN i >= 0 THEN least(i, {_LAST}) + 1 END)",
    "gsql_safe_ordinal(a, i)": "list_extract(a, CASE WHEN i >= 1 THEN i END)",
    "gsql_in_array(x, a)": "CASE WHEN coalesce(len(a), 0) = 0 THEN FALSE WHEN x IS NULL THEN NULL "
    "WHEN list_contains(a, x) THEN TRUE WHEN list_count(a) < len(a) THEN NULL ELSE FALSE END",
    # An array of NULL alone makes the empty text, and a NULL in place of NULL makes NULL.
    "gsql_join(a, d)": "CASE WHEN a IS NULL OR d IS NULL THEN NULL ELSE coalesce(array_to_string(a, d), '') END",
    "gsql_join_nulls(a, d, n)": "CASE WHEN a IS NOT NULL AND n IS NOT NULL THEN gsql_join("
    # Nothing of the caller's stands inside the lambda: the engine does not read every lambda inside another.
    "list_transform(list_zip(a, list_resize([n], len(a), n)), lambda z: coalesce(z[1], z[2])), d) END",
}
