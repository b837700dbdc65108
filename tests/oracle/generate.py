"""Random expressions over the columns of ``edges``, typed as they are made, for differences nobody thought of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from tests.oracle.corpus import Item

Maker = Callable[["Generator", int], str]
_LITERALS: Final = {
    "INT64": ["0", "1", "-1", "7", "9223372036854775807", "-9223372036854775808", "3", "NULL_INT64"],
    "FLOAT64": ["0.5", "-1.25", "1e10", "0.0", "3.0"],
    "NUMERIC": ["NUMERIC '1.5'", "NUMERIC '-0.000000001'", "NUMERIC '99999999999999999999999999999.999999999'", "NUMERIC '3'"],
    "STRING": ["'abc'", "''", "'ñandú'", "'12'", "'a,b,,c'", "'2024-02-29'", "' x '"],
    "BOOL": ["TRUE", "FALSE", "CAST(NULL AS BOOL)"],
    "DATE": ["DATE '2024-02-29'", "DATE '1999-12-31'", "DATE '0001-01-01'", "DATE '9999-12-31'"],
    "DATETIME": ["DATETIME '2024-03-31 02:30:00'", "DATETIME '1969-12-31 23:59:59.999999'"],
    "TIME": ["TIME '23:59:59.999999'", "TIME '00:00:00'", "TIME '12:30:00.5'"],
    "TIMESTAMP": ["TIMESTAMP '2024-10-27 00:30:00+00'", "TIMESTAMP '1969-12-31 23:59:59.5+00'"],
    "BYTES": ["b'abc'", "b'\\xff\\x00'", "b''"],
}  # fmt: skip
_COLUMNS: Final = {
    "INT64": ["i", "k"], "FLOAT64": ["f"], "NUMERIC": ["n"], "STRING": ["s"], "BOOL": ["b"], "DATE": ["d"],
    "DATETIME": ["dt"], "TIME": ["tm"], "TIMESTAMP": ["ts"], "BYTES": ["y"],
}  # fmt: skip
ZONES: Final = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC")
_DAYS: Final = ("DAY", "WEEK", "WEEK(MONDAY)", "WEEK(THURSDAY)", "ISOWEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR")
_CLOCK: Final = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR")
_FIELDS: Final = (
    "YEAR",
    "ISOYEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "WEEK(TUESDAY)",
    "ISOWEEK",
    "DAY",
    "DAYOFWEEK",
    "DAYOFYEAR",
)
_NUMBERS: Final = ("INT64", "FLOAT64", "NUMERIC")

# What makes each type, by the types of its arguments; %1 is a value of a type, {…} one of these words.
_FORMS: Final[dict[str, list[str]]] = {
    "INT64": [
        "%INT64 + %INT64", "%INT64 - %INT64", "%INT64 * %INT64", "-(%INT64)", "ABS(%INT64)", "SIGN(%INT64)", "DIV(%INT64, %INT64)",
        "MOD(%INT64, %INT64)", "(%INT64) & (%INT64)", "(%INT64) | (%INT64)", "(%INT64) ^ (%INT64)", "~(%INT64)", "BIT_COUNT(%INT64)",
        "SAFE_ADD(%INT64, %INT64)", "SAFE_SUBTRACT(%INT64, %INT64)", "SAFE_MULTIPLY(%INT64, %INT64)", "SAFE_NEGATE(%INT64)",
        "CAST(%FLOAT64 AS INT64)", "SAFE_CAST(%FLOAT64 AS INT64)", "CAST(%NUMERIC AS INT64)", "SAFE_CAST(%NUMERIC AS INT64)",
        "CAST(%BOOL AS INT64)", "SAFE_CAST(%STRING AS INT64)", "LENGTH(%STRING)", "BYTE_LENGTH(%STRING)", "LENGTH(%BYTES)",
        "STRPOS(%STRING, %STRING)", "UNICODE(%STRING)", "ARRAY_LENGTH(SPLIT(%STRING, ','))", "SAFE.ASCII(%STRING)",
        "DATE_DIFF(%DATE, %DATE, {days})", "DATETIME_DIFF(%DATETIME, %DATETIME, {days})", "DATETIME_DIFF(%DATETIME, %DATETIME, {clock})",
        "TIMESTAMP_DIFF(%TIMESTAMP, %TIMESTAMP, {clock})", "TIMESTAMP_DIFF(%TIMESTAMP, %TIMESTAMP, DAY)", "TIME_DIFF(%TIME, %TIME, {clock})",
        "EXTRACT({fields} FROM %DATE)", "EXTRACT({fields} FROM %DATETIME)", "EXTRACT({fields} FROM %TIMESTAMP AT TIME ZONE '{zones}')",
        "EXTRACT({clock} FROM %DATETIME)", "EXTRACT({clock} FROM %TIME)", "EXTRACT({clock} FROM %TIMESTAMP AT TIME ZONE '{zones}')",
        "UNIX_DATE(%DATE)", "UNIX_SECONDS(%TIMESTAMP)", "UNIX_MILLIS(%TIMESTAMP)", "UNIX_MICROS(%TIMESTAMP)",
    ],
    "FLOAT64": [
        "%FLOAT64 + %FLOAT64", "%FLOAT64 - %FLOAT64", "%FLOAT64 * %FLOAT64", "%FLOAT64 / %FLOAT64", "%INT64 / %INT64", "-(%FLOAT64)",
        "ABS(%FLOAT64)", "SIGN(%FLOAT64)", "ROUND(%FLOAT64)", "ROUND(%FLOAT64, 2)", "TRUNC(%FLOAT64, 1)", "TRUNC(%FLOAT64)", "CEIL(%FLOAT64)",
        "FLOOR(%FLOAT64)", "SAFE_DIVIDE(%FLOAT64, %FLOAT64)", "SAFE_DIVIDE(%INT64, %INT64)", "SAFE_ADD(%FLOAT64, %FLOAT64)",
        "SAFE_MULTIPLY(%FLOAT64, %FLOAT64)", "CAST(%INT64 AS FLOAT64)", "CAST(%NUMERIC AS FLOAT64)", "SAFE_CAST(%STRING AS FLOAT64)",
        "SQRT(%FLOAT64)", "SAFE.SQRT(%FLOAT64)", "SAFE.LN(%FLOAT64)", "%INT64 + %FLOAT64", "%NUMERIC * %FLOAT64", "SAFE.LOG(%FLOAT64, %FLOAT64)",
    ],
    "NUMERIC": [
        "%NUMERIC + %NUMERIC", "%NUMERIC - %NUMERIC", "%NUMERIC * %NUMERIC", "%NUMERIC / %NUMERIC", "-(%NUMERIC)", "ABS(%NUMERIC)",
        "SIGN(%NUMERIC)", "ROUND(%NUMERIC, 1)", "ROUND(%NUMERIC, -2)", "TRUNC(%NUMERIC, 1)", "CEIL(%NUMERIC)", "FLOOR(%NUMERIC)",
        "MOD(%NUMERIC, %NUMERIC)", "DIV(%NUMERIC, %NUMERIC)", "SAFE_DIVIDE(%NUMERIC, %NUMERIC)", "SAFE_ADD(%NUMERIC, %NUMERIC)",
        "SAFE_SUBTRACT(%NUMERIC, %NUMERIC)", "SAFE_MULTIPLY(%NUMERIC, %NUMERIC)", "CAST(%INT64 AS NUMERIC)", "SAFE_CAST(%FLOAT64 AS NUMERIC)",
        "SAFE_CAST(%STRING AS NUMERIC)", "%INT64 * %NUMERIC", "%NUMERIC / %INT64",
    ],
    "STRING": [
        "%STRING || %STRING", "UPPER(%STRING)", "LOWER(%STRING)", "TRIM(%STRING)", "LTRIM(%STRING, %STRING)", "REVERSE(%STRING)",
        "SUBSTR(%STRING, %INT64)", "SAFE.SUBSTR(%STRING, %INT64, %INT64)", "SAFE.LEFT(%STRING, %INT64)", "SAFE.RIGHT(%STRING, %INT64)",
        "REPLACE(%STRING, %STRING, %STRING)", "LPAD(%STRING, 6, 'xy')", "RPAD(%STRING, 4)", "REPEAT(%STRING, 2)", "TO_HEX(%BYTES)",
        "TO_BASE64(%BYTES)", "CAST(%INT64 AS STRING)", "CAST(%FLOAT64 AS STRING)", "CAST(%NUMERIC AS STRING)", "CAST(%BOOL AS STRING)",
        "CAST(%DATE AS STRING)", "CAST(%DATETIME AS STRING)", "CAST(%TIME AS STRING)", "CAST(%TIMESTAMP AS STRING)", "STRING(%TIMESTAMP, '{zones}')",
        "SAFE_CAST(%BYTES AS STRING)", "FORMAT_DATE('%F|%j|%G-%V|%a|%b', %DATE)", "FORMAT_DATETIME('%F %T %E*S', %DATETIME)",
        "FORMAT_TIMESTAMP('%F %T%Ez', %TIMESTAMP, '{zones}')", "FORMAT_TIME('%I:%M:%E6S %p', %TIME)", "REGEXP_EXTRACT(%STRING, r'[a-z]+')",
        "REGEXP_REPLACE(%STRING, r'([a-z])', r'<\\1>')", "SPLIT(%STRING, ',')[SAFE_OFFSET(%INT64)]", "TO_HEX(MD5(%STRING))", "SAFE.CHR(%INT64)",
        "NORMALIZE(%STRING)",
    ],
    "BOOL": [
        "%INT64 < %INT64", "%FLOAT64 = %FLOAT64", "%NUMERIC >= %NUMERIC", "%STRING < %STRING", "%DATE <= %DATE", "%TIMESTAMP > %TIMESTAMP",
        "%BYTES = %BYTES", "%TIME != %TIME", "%BOOL AND %BOOL", "%BOOL OR %BOOL", "NOT (%BOOL)", "(%INT64) IS NULL", "(%BOOL) IS TRUE",
        "%INT64 IN (%INT64, %INT64)", "%STRING NOT IN (%STRING, %STRING)", "%INT64 BETWEEN %INT64 AND %INT64", "%STRING LIKE 'a%'",
        "%STRING LIKE '_\\\\%_'", "STARTS_WITH(%STRING, %STRING)", "ENDS_WITH(%STRING, %STRING)", "REGEXP_CONTAINS(%STRING, r'^\\w+$')",
        "%INT64 = %FLOAT64", "%NUMERIC < %FLOAT64", "%INT64 < %NUMERIC", "%STRING IS DISTINCT FROM %STRING", "SAFE_CAST(%STRING AS BOOL)",
    ],
    "DATE": [
        "SAFE.DATE_ADD(%DATE, INTERVAL %INT64 DAY)", "DATE_ADD(%DATE, INTERVAL 1 MONTH)", "SAFE.DATE_SUB(%DATE, INTERVAL %INT64 MONTH)",
        "DATE_TRUNC(%DATE, {days})", "LAST_DAY(%DATE, {weeks})", "LAST_DAY(%DATE)", "DATE(%TIMESTAMP, '{zones}')", "CAST(%DATETIME AS DATE)",
        "SAFE.DATE(%INT64, %INT64, %INT64)", "SAFE_CAST(%STRING AS DATE)", "SAFE.PARSE_DATE('%Y-%m-%d', %STRING)", "SAFE.DATE_FROM_UNIX_DATE(%INT64)",
        "EXTRACT(DATE FROM %TIMESTAMP AT TIME ZONE '{zones}')",
    ],
    "DATETIME": [
        "SAFE.DATETIME_ADD(%DATETIME, INTERVAL %INT64 SECOND)", "DATETIME_SUB(%DATETIME, INTERVAL 1 MONTH)", "DATETIME_TRUNC(%DATETIME, {days})",
        "DATETIME_TRUNC(%DATETIME, {clock})", "DATETIME(%TIMESTAMP, '{zones}')", "DATETIME(%DATE, %TIME)", "CAST(%DATE AS DATETIME)",
        "SAFE_CAST(%STRING AS DATETIME)",
    ],
    "TIME": [
        "TIME_ADD(%TIME, INTERVAL %INT64 MINUTE)", "TIME_SUB(%TIME, INTERVAL %INT64 MICROSECOND)", "TIME_TRUNC(%TIME, {clock})",
        "TIME(%TIMESTAMP, '{zones}')", "CAST(%DATETIME AS TIME)", "SAFE_CAST(%STRING AS TIME)", "SAFE.TIME(%INT64, %INT64, %INT64)",
    ],
    "TIMESTAMP": [
        "SAFE.TIMESTAMP_ADD(%TIMESTAMP, INTERVAL %INT64 SECOND)", "TIMESTAMP_SUB(%TIMESTAMP, INTERVAL 1 DAY)",
        "TIMESTAMP_TRUNC(%TIMESTAMP, {days}, '{zones}')", "TIMESTAMP_TRUNC(%TIMESTAMP, {clock}, '{zones}')", "TIMESTAMP(%DATETIME, '{zones}')",
        "TIMESTAMP(%DATE, '{zones}')", "SAFE.TIMESTAMP_SECONDS(%INT64)", "SAFE_CAST(%STRING AS TIMESTAMP)", "CAST(%DATETIME AS TIMESTAMP)",
    ],
    "BYTES": [
        "%BYTES || %BYTES", "SUBSTR(%BYTES, %INT64)", "SAFE.SUBSTR(%BYTES, %INT64, %INT64)", "SAFE.LEFT(%BYTES, %INT64)", "SAFE.RIGHT(%BYTES, %INT64)",
        "CAST(%STRING AS BYTES)", "SHA256(%STRING)", "SAFE.FROM_HEX(%STRING)", "SAFE.FROM_BASE64(%STRING)",
    ],
}  # fmt: skip
_ANY: Final = (
    "IF(%BOOL, %ANY, %ANY)", "COALESCE(%ANY, %ANY)", "NULLIF(%ANY, %ANY)", "CASE WHEN %BOOL THEN %ANY ELSE %ANY END", "GREATEST(%ANY, %ANY)",
    "LEAST(%ANY, %ANY, %ANY)",
)  # fmt: skip
_WORDS: Final = {
    "{days}": _DAYS, "{clock}": _CLOCK, "{fields}": _FIELDS, "{zones}": ZONES,
    "{weeks}": ("WEEK", "WEEK(FRIDAY)", "ISOWEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR"),
}  # fmt: skip


class Generator:
    """Makes expressions from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def items(self, count: int) -> Iterator[Item]:
        """Questions over all rows of ``edges``, no two alike."""
        seen = set()
        while len(seen) < count:
            text = self.expression(self._rng.choice(list(_FORMS)), self._rng.choice((1, 1, 2, 2, 3)))
            if text not in seen and len(text) < 500:
                seen.add(text)
                yield Item(text, f"SELECT k, {text} AS x FROM edges ORDER BY k")

    def expression(self, kind: str, depth: int) -> str:
        """One expression of a type, of at most ``depth`` calls in one another."""
        if depth == 0:
            literals = [text for text in _LITERALS[kind] if text != "NULL_INT64"]
            return self._rng.choice([*_COLUMNS[kind] * 3, *literals])
        form = self._rng.choice([*_FORMS[kind], *_FORMS[kind], *_ANY]).replace("%ANY", f"%{kind}")
        for word, choices in _WORDS.items():
            while word in form:
                form = form.replace(word, self._rng.choice(choices), 1)
        for name in sorted(_FORMS, key=len, reverse=True):
            while f"%{name}" in form:
                inner = self.expression(name, self._rng.randrange(depth))
                form = form.replace(f"%{name}", f"({inner})" if " " in inner and "(" not in inner[:1] else inner, 1)
        return form
