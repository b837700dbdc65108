"""Macros of text and bytes. ``failing`` makes a pair: NULL on failure for ``SAFE.``, and the error of the plain call."""

from __future__ import annotations

from typing import Final

from queries.duckdb_letters import LOWER, UPPER

_WHITE: Final = "".join(
    map(
        chr,
        [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000],
    )
)
SPACE: Final = "[ \\t\\n\\x0b\\f\\r]*"
"""What GoogleSQL skips around a number in text, as a regular expression."""

# What stands between a capital sigma and the letter that decides how it is written small.
_BETWEEN: Final = "[\\p{Mn}\\p{Me}\\p{Cf}\\p{Lm}\\p{Sk}'.:·’]*"


def failing(name: str, parameters: str, body: str, message: str, written: str = "") -> dict[str, str]:
    """``gsql_safe_name``, which is NULL where it fails, and ``gsql_name``, which is an error there.

    ``body`` must be NULL only where an argument is NULL or the call fails. Each argument is
    computed, and once, whatever the others are; ``written`` names those that are constants.
    """
    names = parameters.split(", ")
    held = {one: one for one in names if one not in written.split(", ")}
    passed = ", ".join(f"v.{one}" if one in held else one for one in names)
    present = " AND ".join(f"v.{one} IS NOT NULL" for one in held)
    inner = f"gsql_try_{name}({passed})"
    return {
        f"gsql_try_{name}({parameters})": body,
        f"gsql_safe_{name}({parameters})": once(held, inner),
        f"gsql_{name}({parameters})": once(held, f"coalesce({inner}, CASE WHEN {present} THEN error('{message}') END)"),
    }


def once(parts: dict[str, str], body: str, name: str = "v") -> str:
    """``body`` over ``v.part``, where each part is computed once however often the body names it."""
    held = ", ".join(f"'{part}': {value}" for part, value in parts.items())
    return f"list_transform([{{{held}}}], lambda {name}: {body})[1]"


def _letters(table: dict[str, str]) -> str:
    return "MAP{" + ", ".join(f"'{letter}': '{other}'" for letter, other in table.items()) + "}"


_SMALL_SIGMA: Final = (
    f"CASE WHEN regexp_matches(substr(x, 1, i - 1), '\\p{{L}}{_BETWEEN.replace(chr(39), chr(39) * 2)}$') "
    f"AND NOT regexp_matches(substr(x, i + 1), '^{_BETWEEN.replace(chr(39), chr(39) * 2)}\\p{{L}}') THEN 'ς' ELSE 'σ' END"
)

TEXT: Final[dict[str, str]] = {
    "gsql_upper(x)": f"CASE WHEN strlen(x) = length(x) OR NOT regexp_matches(x, '[{''.join(UPPER)}]') THEN upper(x) ELSE "
    f"array_to_string(list_transform(string_split(x, ''), lambda c: coalesce({_letters(UPPER)}[c], upper(c))), '') END",
    "gsql_lower(x)": f"CASE WHEN strlen(x) = length(x) OR NOT regexp_matches(x, '[Σ{''.join(LOWER)}]') THEN lower(x) ELSE "
    "array_to_string(list_transform(string_split(x, ''), lambda c, i: "
    f"CASE WHEN c = 'Σ' THEN {_SMALL_SIGMA} ELSE coalesce({_letters(LOWER)}[c], lower(c)) END), '') END",
    "gsql_trim(x)": f"trim(x, '{_WHITE}')",
    "gsql_ltrim(x)": f"ltrim(x, '{_WHITE}')",
    "gsql_rtrim(x)": f"rtrim(x, '{_WHITE}')",
    # Positions before the text clamp to its start; 0 counts as 1.
    "gsql_start(x, p)": "CASE WHEN p > 0 THEN least(p, length(x) + 1) WHEN p = 0 OR p < -length(x) THEN 1 "
    "ELSE length(x) + CASE WHEN p < 0 THEN p END + 1 END",
    "gsql_substr(x, p)": "substr(x, gsql_start(x, p))",
    **failing(
        "substr_n",
        "x, p, n",
        "CASE WHEN n >= 0 THEN substr(x, gsql_start(x, p), least(n, length(x))) END",
        "SUBSTR of a negative length",
    ),
    **failing("left", "x, n", "CASE WHEN n >= 0 THEN left(x, least(n, length(x))) END", "LEFT of a negative length"),
    **failing("right", "x, n", "CASE WHEN n >= 0 THEN right(x, least(n, length(x))) END", "RIGHT of a negative length"),
    # Bytes are cut as pairs of hexadecimal digits.
    "gsql_start_bytes(x, p)": "CASE WHEN p > 0 THEN least(p, octet_length(x) + 1) WHEN p = 0 OR p < -octet_length(x) THEN 1 "
    "ELSE octet_length(x) + CASE WHEN p < 0 THEN p END + 1 END",
    "gsql_substr_bytes(x, p)": "array_slice(x, gsql_start_bytes(x, p), octet_length(x))",
    **failing(
        "substr_n_bytes",
        "x, p, n",
        "CASE WHEN n = 0 THEN array_slice(x, 1, 0) WHEN n > 0 AND x IS NOT NULL "
        "THEN array_slice(x, gsql_start_bytes(x, p), gsql_start_bytes(x, p) - 1 + least(n, octet_length(x))) END",
        "SUBSTR of a negative length",
    ),
    **failing(
        "left_bytes",
        "x, n",
        "CASE WHEN n >= 0 THEN array_slice(x, 1, least(n, octet_length(x))) END",
        "LEFT of a negative length",
    ),
    **failing(
        "right_bytes",
        "x, n",
        "CASE WHEN n >= 0 THEN array_slice(x, octet_length(x) - least(n, octet_length(x)) + 1, octet_length(x)) END",
        "RIGHT of a negative length",
    ),
    "gsql_length_bytes(x)": "octet_length(x)",
    "gsql_byte_length(x)": "strlen(x)",
    "gsql_strpos(x, y)": "strpos(x, y)",
    "gsql_split(x, d)": "CASE WHEN x = '' AND d IS NOT NULL THEN [''] WHEN d IS NOT NULL THEN string_split(x, d) END",
    "gsql_reverse(x)": "array_to_string(list_reverse(string_split(x, '')), '')",
    **failing(
        "ascii",
        "x",
        "CASE WHEN ascii(x) < 128 THEN CAST(ascii(x) AS BIGINT) END",
        "ASCII takes text of ASCII letters",
    ),
    "gsql_unicode(x)": "CAST(CASE WHEN x = '' THEN 0 ELSE unicode(x) END AS BIGINT)",
    **failing(
        "chr",
        "n",
        "CASE WHEN n BETWEEN 0 AND 55295 OR n BETWEEN 57344 AND 1114111 THEN chr(CAST(n AS INTEGER)) END",
        "CHR takes a code point",
    ),
    "gsql_normalize(x)": "nfc_normalize(x)",
    "gsql_md5(x)": "unhex(md5(x))",
    "gsql_sha1(x)": "unhex(sha1(x))",
    "gsql_sha256(x)": "unhex(sha256(x))",
    "gsql_to_hex(x)": "lower(hex(x))",
    **failing("from_hex", "x", once({"x": "x"}, "try(unhex(v.x))"), "FROM_HEX takes hexadecimal digits"),
    "gsql_to_base64(x)": "to_base64(x)",
    **failing(
        "from_base64",
        "x",
        once(
            {"t": "regexp_replace(x, '[ \\t\\n\\x0b\\f\\r]', '', 'g')"},
            "CASE WHEN regexp_matches(v.t, '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?$') "
            "THEN from_base64(rpad(v.t, CAST((strlen(v.t) + 3) // 4 * 4 AS INTEGER), '=')) END",
        ),
        "FROM_BASE64 takes base64 text",
    ),
    "gsql_regexp_contains(x, p)": "regexp_matches(x, p)",
    "gsql_regexp_extract(x, p)": "CASE WHEN regexp_matches(x, p) THEN regexp_extract(x, p) END",
    "gsql_regexp_extract_group(x, p)": "CASE WHEN regexp_matches(x, p) THEN regexp_extract(x, p, 1) END",
    "gsql_regexp_replace(x, p, r)": "regexp_replace(x, p, r, 'g')",
    "gsql_mask_text(k, x)": "CASE WHEN x IS NULL THEN NULL ELSE substr(sha256(k || x), 1, 32) END",
    "gsql_mask_int(k, x)": "CASE WHEN x IS NULL THEN NULL "
    "ELSE CAST('0x' || substr(sha256(k || CAST(x AS VARCHAR)), 1, 15) AS BIGINT) END",
    "gsql_mask_short(x)": "substr(x, 1, least(4, length(x) // 2))",
}
