"""Macros of dates, times and timestamps, and of the text they are read from."""

from __future__ import annotations

from typing import Final

from queries.duckdb_macros_text import failing, once

_DAY: Final = "86400000000"
_FIELD: Final = "coalesce(try_cast(v.f[{place}] AS BIGINT), {otherwise})"


def _number(place: int, otherwise: int) -> str:
    return _FIELD.format(place=place, otherwise=otherwise)


def _int32(*names: str) -> dict[str, str]:
    """Parts of a date or time, of which GoogleSQL reads the lower 32 bits."""
    return {name: f"gsql_int32({name})" for name in names}


# The numbers of the fields that a text was split into (``formats.FIELDS``).
_NUMBERS: Final = {
    "y": f"CASE WHEN v.f[2] <> '' THEN {_number(2, 0)} + CASE WHEN {_number(2, 0)} < 69 THEN 2000 ELSE 1900 END "
    f"ELSE {_number(1, 1970)} END",
    "m": f"CASE WHEN v.f[4] <> '' THEN (strpos('janfebmaraprmayjunjulaugsepoctnovdec', lower(left(v.f[4], 3))) + 2) // 3 "
    f"ELSE {_number(3, 1)} END",
    "d": _number(5, 1),
    "j": _number(6, 1),
    "h": f"CASE WHEN v.f[8] = '' THEN {_number(7, 0)} WHEN {_number(8, 0)} NOT BETWEEN 1 AND 12 THEN 99 "
    f"ELSE {_number(8, 0)} % 12 + CASE WHEN lower(v.f[9]) = 'pm' THEN 12 ELSE 0 END END",
    "i": _number(10, 0),
    "s": _number(11, 0),
    "u": "coalesce(try_cast(rpad(substr(v.f[12], 2, 6), 6, '0') AS BIGINT), 0)",
    "z": "v.f[13]",
    "n": "try_cast(v.f[14] AS BIGINT)",
}
_IN_RANGE: Final = (
    "r.y BETWEEN 1 AND 9999 AND r.m BETWEEN 1 AND 12 AND r.d BETWEEN 1 AND 31 AND r.h BETWEEN 0 AND 23 "
    "AND r.i BETWEEN 0 AND 59 AND r.s BETWEEN 0 AND 60 AND r.j BETWEEN 1 AND 365 + CASE WHEN r.y % 4 = 0 "
    "AND (r.y % 100 <> 0 OR r.y % 400 = 0) THEN 1 ELSE 0 END"
)
_DATE_TEXT: Final = "([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_TIME_TEXT: Final = "([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(\\.[0-9]{1,6})?"
_ZONE_TEXT: Final = "(Z|z|[+-][0-9]{1,2}(?::[0-9]{1,2})?|[+-][0-9]{4})?"
_OF_DATE: Final = "'\\1||\\2||\\3|||||||||'"
_OF_DATETIME: Final = "'\\1||\\2||\\3||\\4|||\\5|\\6|\\7||'"
_OF_TIMESTAMP: Final = "'\\1||\\2||\\3||\\4|||\\5|\\6|\\7|\\8|'"
_OF_TIME: Final = "'||||||\\1|||\\2|\\3|\\4||'"
_NAMED_ZONE: Final = f"'^{_DATE_TEXT}[ Tt]{_TIME_TEXT} [A-Za-z]'"


def _bounded(name: str, first: str, beyond: str, value: str) -> dict[str, str]:
    """A moment within the years 1 to 9999, an error beyond them, or NULL."""
    inside = f"v.d >= {first} AND v.d < {beyond}"
    return {
        f"gsql_{name}(d)": once(
            {"d": "d"}, f"CASE WHEN v.d IS NULL OR ({inside}) THEN {value} ELSE error('a {name} is out of range') END"
        ),
        f"gsql_safe_{name}(d)": once({"d": "d"}, f"CASE WHEN {inside} THEN {value} END"),
    }


MOMENTS: Final[dict[str, str]] = {
    **_bounded("date", "DATE '0001-01-01'", "DATE '9999-12-31' + to_days(1)", "CAST(v.d AS DATE)"),
    **_bounded("datetime", "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '10000-01-01 00:00:00'", "v.d"),
    **_bounded("moment", "TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '10000-01-01 00:00:00+00'", "v.d"),
    "gsql_int32(n)": "(n & 4294967295) - CASE WHEN n & 2147483648 = 0 THEN 0 ELSE 4294967296 END",
    **failing(
        "date_parts",
        "y, m, d",
        once(_int32("y", "m", "d"), "CASE WHEN v.y BETWEEN 1 AND 9999 THEN try(make_date(v.y, v.m, v.d)) END"),
        "DATE of a day that is not",
    ),
    **failing(
        "datetime_parts",
        "y, m, d, h, i, s",
        once(
            _int32("y", "m", "d", "h", "i", "s"),
            "CASE WHEN v.y BETWEEN 1 AND 9999 AND v.s BETWEEN 0 AND 60 "
            "THEN gsql_safe_datetime(try(make_timestamp(v.y, v.m, v.d, v.h, v.i, v.s))) END",
        ),
        "DATETIME of a moment that is not",
    ),
    **failing(
        "time_parts",
        "h, i, s",
        once(
            _int32("h", "i", "s"),
            "CASE WHEN v.h BETWEEN 0 AND 23 AND v.i BETWEEN 0 AND 59 AND v.s BETWEEN 0 AND 60 "
            "THEN gsql_time_of(((v.h * 60 + v.i) * 60 + v.s) * 1000000) END",
        ),
        "TIME of a time that is not",
    ),
    # What a zone adds to UTC, in microseconds, at an instant.
    "gsql_offset_at(m, z)": "epoch_us(make_timestamptz(m) AT TIME ZONE z) - m",
    # A zone's own time as an instant. Where it is twice or never, what held before the change is taken.
    "gsql_at(d, z)": once(
        {"u": "epoch_us(d)"},
        once(
            {
                "u": "v.u",
                "a": f"gsql_offset_at(v.u - {_DAY}, z)",
                "b": f"gsql_offset_at(v.u + {_DAY}, z)",
            },
            "make_timestamptz(CASE WHEN w.a = w.b OR gsql_offset_at(w.u - w.a, z) = w.a THEN w.u - w.a "
            "WHEN gsql_offset_at(w.u - w.b, z) = w.b THEN w.u - w.b ELSE w.u - w.a END)",
            "w",
        ),
    ),
    # Days since Monday 0001-01-01.
    "gsql_days(d)": "date_diff('day', DATE '0001-01-01', d)",
    "gsql_floor_div(a, b)": "CASE WHEN a >= 0 THEN a // b ELSE -((-a + b - 1) // b) END",
    # Weeks start on day k, Sunday being 0. Days before the year's first such day are week 0.
    "gsql_week(d, k)": "(dayofyear(d) + 6 - (dayofweek(d) - k + 7) % 7) // 7",
    "gsql_week_start(d, k)": "date_trunc('day', d) - to_days(CAST((dayofweek(d) - k + 7) % 7 AS INTEGER))",
    "gsql_within(n, most)": "CASE WHEN n BETWEEN -most AND most THEN n END",
    "gsql_time_micros(t)": "epoch_us(t)",
    "gsql_time_of(m)": f"TIME '00:00:00' + to_microseconds((m % {_DAY} + {_DAY}) % {_DAY})",
    # Text that was read by a regular expression, its fields put in their order by the replacement t.
    "gsql_fields(x, p, t)": "string_split(CASE WHEN regexp_matches(x, p) THEN regexp_replace(x, p, t) END, '|')",
    "gsql_parsed(x, p, t)": once(
        {"f": "gsql_fields(x, p, t)"},
        "CASE WHEN v.f IS NOT NULL THEN {"
        + ", ".join(f"'{name}': {value}" for name, value in _NUMBERS.items())
        + "} END",
    ),
    "gsql_civil(r, u)": f"CASE WHEN {_IN_RANGE} THEN try(make_timestamp(r.y, r.m, r.d, r.h, r.i, 0)) "
    "+ to_days(CAST(r.j - 1 AS INTEGER)) + to_microseconds(r.s * 1000000 + u) END",
    # A leap second is the next minute's first; only a TIMESTAMP keeps its fraction.
    "gsql_civil_of(r)": "gsql_safe_datetime(gsql_civil(r, CASE WHEN r.s = 60 THEN 0 ELSE r.u END))",
    "gsql_zone_micros(z)": "CASE WHEN upper(z) = 'Z' THEN 0 ELSE CASE WHEN left(z, 1) = '-' THEN -60000000 ELSE 60000000 END "
    "* CASE WHEN strpos(z, ':') > 0 THEN CAST(split_part(substr(z, 2), ':', 1) AS BIGINT) * 60 "
    "+ CASE WHEN CAST(split_part(z, ':', 2) AS BIGINT) < 60 THEN CAST(split_part(z, ':', 2) AS BIGINT) ELSE 6000 END "
    "WHEN strlen(z) > 3 THEN CAST(substr(z, 2, 2) AS BIGINT) * 60 "
    "+ CASE WHEN CAST(substr(z, 4) AS BIGINT) < 60 THEN CAST(substr(z, 4) AS BIGINT) ELSE 6000 END "
    "ELSE CAST(substr(z, 2) AS BIGINT) * 60 END END",
    "gsql_shifted(d, m)": "CASE WHEN m BETWEEN -50400000000 AND 50400000000 THEN make_timestamptz(epoch_us(d) - m) END",
    "gsql_instant_of(r, zone)": once(
        {"c": "gsql_civil(r, r.u)", "n": "r.n", "z": "r.z"},
        "gsql_safe_moment(CASE WHEN w.n BETWEEN -62135596800 AND 253402300799 THEN make_timestamptz(w.n * 1000000) "
        "WHEN w.n IS NOT NULL THEN NULL WHEN w.z <> '' THEN gsql_shifted(w.c, gsql_zone_micros(w.z)) "
        "ELSE gsql_at(w.c, zone) END)",
        "w",
    ),
    **failing(
        "parse_datetime",
        "x, p, t",
        once({"r": "gsql_parsed(x, p, t)"}, "gsql_civil_of(v.r)"),
        "a text is not of its format",
        written="p, t",
    ),
    "gsql_safe_parse_timestamp(x, p, t, zone)": once({"r": "gsql_parsed(x, p, t)"}, "gsql_instant_of(v.r, zone)"),
    "gsql_parse_timestamp(x, p, t, zone)": "coalesce(gsql_safe_parse_timestamp(x, p, t, zone), "
    "CASE WHEN x IS NOT NULL THEN error('a text is not of its format') END)",
    **{
        f"gsql_{safe}parse_{kind}(x, p, t)": f"CAST(gsql_{safe}parse_datetime(x, p, t) AS {kind.upper()})"
        for safe in ("", "safe_")
        for kind in ("date", "time")
    },
    **failing("date_of_text", "x", f"gsql_safe_parse_date(x, '^{_DATE_TEXT}$', {_OF_DATE})", "a text is not a date"),
    **failing(
        "datetime_of_text",
        "x",
        f"gsql_safe_parse_datetime(x, '^{_DATE_TEXT}(?:[ Tt]{_TIME_TEXT})?$', {_OF_DATETIME})",
        "a text is not a datetime",
    ),
    **failing("time_of_text", "x", f"gsql_safe_parse_time(x, '^{_TIME_TEXT}$', {_OF_TIME})", "a text is not a time"),
    "gsql_safe_timestamp_of_text(x, zone)": f"CASE WHEN regexp_matches(x, {_NAMED_ZONE}) "
    "THEN error('the zone of a timestamp in text is Z or a number of hours') "
    f"ELSE gsql_safe_parse_timestamp(x, '^{_DATE_TEXT}(?:[ Tt]{_TIME_TEXT}{_ZONE_TEXT})?$', {_OF_TIMESTAMP}, zone) END",
    "gsql_timestamp_of_text(x, zone)": "coalesce(gsql_safe_timestamp_of_text(x, zone), "
    "CASE WHEN x IS NOT NULL THEN error('a text is not a timestamp') END)",
    "gsql_timestamp_of_civil_text(x, zone)": "gsql_moment(gsql_at(gsql_datetime_of_text(x), zone))",
    "gsql_safe_timestamp_of_civil_text(x, zone)": "gsql_safe_moment(gsql_at(gsql_safe_datetime_of_text(x), zone))",
    # Fractions of a second: none, three or six digits; and as many as needed.
    "gsql_micros_of(d)": "date_part('microsecond', d) % 1000000",
    "gsql_fraction(m)": once(
        {"m": "m"},
        "CASE WHEN x.m = 0 THEN '' WHEN x.m % 1000 = 0 THEN '.' || lpad(CAST(x.m // 1000 AS VARCHAR), 3, '0') "
        "ELSE '.' || lpad(CAST(x.m AS VARCHAR), 6, '0') END",
        "x",
    ),
    "gsql_short_fraction(m)": "rtrim(rtrim('.' || lpad(CAST(m AS VARCHAR), 6, '0'), '0'), '.')",
    "gsql_text_of_date(d)": "strftime(d, '%Y-%m-%d')",
    "gsql_text_of_datetime(d)": once(
        {"d": "d"}, "strftime(v.d, '%Y-%m-%d %H:%M:%S') || gsql_fraction(gsql_micros_of(v.d))"
    ),
    "gsql_text_of_time(t)": once({"t": "t"}, "left(CAST(v.t AS VARCHAR), 8) || gsql_fraction(gsql_micros_of(v.t))"),
    # A zone's offset in whole minutes; the seconds that zones had before 1900 are left out, as GoogleSQL does.
    "gsql_minutes_at(t, z)": "CAST(trunc((epoch_us(t AT TIME ZONE z) - epoch_us(t)) / 60000000) AS BIGINT)",
    "gsql_local(t, z)": once(
        {"u": "epoch_us(t)", "n": "gsql_minutes_at(t, z)"}, "make_timestamp(v.u + v.n * 60000000)"
    ),
    "gsql_offset_text(n, colon, short)": once(
        {"n": "n", "m": "abs(n) % 60"},
        "CASE WHEN v.n < 0 THEN '-' ELSE '+' END || lpad(CAST(abs(v.n) // 60 AS VARCHAR), 2, '0') "
        "|| CASE WHEN short AND v.m = 0 THEN '' ELSE colon || lpad(CAST(v.m AS VARCHAR), 2, '0') END",
    ),
    "gsql_text_of_timestamp(t, z)": once(
        {"t": "t"},
        "gsql_text_of_datetime(gsql_local(w.t, z)) || gsql_offset_text(gsql_minutes_at(w.t, z), ':', true)",
        "w",
    ),
}
