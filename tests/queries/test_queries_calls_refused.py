"""Every call, aggregate, window, array and struct that is not typed as it is written is refused by name when a template is loaded.

By the words of the refusal: what is refused with them. A column of ``orders`` stands for any value of its type.
"""

from __future__ import annotations

from typing import Final

import pytest
from sqlglot import exp

from queries.call_types import _READING, reading_of
from queries.errors import TemplateError
from tests.queries.nested_world import TABLES as NESTED
from tests.queries.world import TABLES, template

ROWS: Final[dict[str, tuple[str, ...]]] = {
    "SAFE.REGEXP_CONTAINS is not accepted": ("SAFE.REGEXP_CONTAINS(note, 'a')",),
    "SAFE.CONCAT is not accepted": ("SAFE.CONCAT(note, 'x')",),
    "SAFE.ROUND is not accepted": ("SAFE.ROUND(score)",),
    "SAFE.RPAD is not accepted": ("SAFE.RPAD(note, 3)",),
    "SAFE.ABS is not accepted": ("SAFE.ABS(id)",),
    "SAFE.CAST is not accepted": ("SAFE.CAST(id AS STRING)",),
    "SAFE.GREATEST is not accepted": ("SAFE.GREATEST(id, 1)",),
    "SAFE.IF is not accepted": ("SAFE.IF(TRUE, 1, 2)",),
    "SAFE.SUM is not accepted": ("SAFE.SUM(id)",),
    "the last digit of EXP differs between engines; write ROUND(…, 9) around it": ("EXP(score)",),
    "the last digit of SIN differs between engines; write ROUND(…, 9) around it": ("SIN(score)",),
    "the last digit of POW differs between engines; write ROUND(…, 9) around it": ("POW(score, 2)",),
    "DATE does not take (STRING)": ("DATE(note)",),
    "'x' is not a DATE in its canonical spelling": ("DATE('x')",),
    "TIMESTAMP does not take (STRING)": ("TIMESTAMP(note)",),
    "STRING does not take (STRING)": ("STRING(note)",),
    "STRING does not take (INT64)": ("STRING(id)",),
    "DATETIME does not take (INT64, INT64)": ("DATETIME(id, 1)",),
    "TIME does not take (BOOL)": ("TIME(paid)",),
    "DATE does not take (TIMESTAMP, INT64)": ("DATE(at, id)",),
    "TIMESTAMP does not take (TIMESTAMP, STRING)": ("TIMESTAMP(at, 'UTC')",),
    "DATE does not take (INT64, INT64)": ("DATE(1, 2)",),
    "STRING does not take (DATE, STRING)": ("STRING(day, 'UTC')",),
    "'2024-02-30' is not a DATE in its canonical spelling": ("DATE('2024-02-30')",),
    "SAFE.PARSE_TIMESTAMP does not read an offset": ("SAFE.PARSE_TIMESTAMP('%Y-%m-%d %z', note)", "SAFE.PARSE_TIMESTAMP('%Y-%m-%d %Ez', note)",),
    "REGEXP_EXTRACT takes a pattern of at most one group": ("REGEXP_EXTRACT(note, '(a)(b)')",),
    "REGEXP_SUBSTR takes a pattern of at most one group": ("REGEXP_SUBSTR(note, '(a)(b)')",),
    "REGEXP_EXTRACT takes a group that is in every match: not optional, not one of alternatives": ("REGEXP_EXTRACT(note, '(a)?b')", "REGEXP_EXTRACT(note, 'x|(a)')",),
    'a replacement has \\\\ and \\0 to \\1 alone': ("REGEXP_REPLACE(note, '(a)', '\\\\2')",),
    'a replacement has \\\\ and \\0 to \\0 alone': ("REGEXP_REPLACE(note, 'a', '\\\\x')", "REGEXP_REPLACE(note, 'a', r'\\١')",),
    'a pattern has no \\Q, \\C and no named groups here': ("REGEXP_CONTAINS(note, r'\\Qa\\E')", "REGEXP_CONTAINS(note, r'\\C')", "REGEXP_CONTAINS(note, '(?P<n>a)')", "REGEXP_CONTAINS(note, '(?<n>a)')",),
    "REGEXP_CONTAINS takes a pattern that is written": ("REGEXP_CONTAINS(note, region)", "REGEXP_CONTAINS(note, 1)", "REGEXP_CONTAINS(note)",),
    "REGEXP_CONTAINS takes STRING, STRING": ("REGEXP_CONTAINS(id, 'a')",),
    "REGEXP_CONTAINS takes 2 arguments": ("REGEXP_CONTAINS(note, 'a', 'b')",),
    "REGEXP_REPLACE takes a replacement that is written": ("REGEXP_REPLACE(note, 'a', region)",),
    "LOG takes one or two numbers": ("LOG()", "LOG(1, 2, 3)",),
    "LOG takes FLOAT64; write CAST(… AS FLOAT64)": ("LOG(amount)", "LOG(score, amount)", "LOG(note)", "LOG(note, 2)",),
    "FORMAT_DATE takes 2 arguments": ("FORMAT_DATE('%Y', day, 'UTC')", "FORMAT_DATE('%Y')",),
    "FORMAT_TIMESTAMP takes 2 arguments and a zone": ("FORMAT_TIMESTAMP('%Y', at, 'UTC', 'x')",),
    "FORMAT_DATE takes STRING, DATE": ("FORMAT_DATE('%Y', note)",),
    "FORMAT_DATE takes a format that is written": ("FORMAT_DATE(note, day)", "FORMAT_DATE(1, day)",),
    "SPLIT takes STRING, STRING": ("SPLIT(id)", "SPLIT(note, 1)",),
    "SPLIT takes 2 arguments": ("SPLIT(note, ',', 'x')",),
    "LOWER takes STRING, not INT64": ("LOWER(id)",),
    "STARTS_WITH takes STRING, not INT64": ("STARTS_WITH(note, 1)",),
    "ATAN2 takes (FLOAT64, FLOAT64), not (STRING, INT64)": ("ATAN2(note, 1)",),
}  # fmt: skip
"""Calls, in a query of one row for each of the table."""
WINDOWS: Final[dict[str, tuple[str, ...]]] = {
    "OVER is not accepted on this function": ("LOWER(note) OVER (ORDER BY id)", "STRING_AGG(note, ',') OVER (ORDER BY id)", "ARRAY_AGG(id) OVER (ORDER BY id)",),
    "ANY_VALUE() may answer differently each time; use MIN or MAX": ("ANY_VALUE(id) OVER (ORDER BY id)",),
    "PARTITION BY takes columns and expressions": ("COUNT(id) OVER (PARTITION BY 1)", "COUNT(id) OVER (PARTITION BY [id])", "COUNT(id) OVER (PARTITION BY STRUCT(id AS a))",),
    "PARTITION BY does not take FLOAT64": ("COUNT(id) OVER (PARTITION BY score)",),
    "IGNORE NULLS and RESPECT NULLS go with FIRST_VALUE, LAST_VALUE and NTH_VALUE": ("LAG(id IGNORE NULLS) OVER (ORDER BY id)", "SUM(id IGNORE NULLS) OVER (ORDER BY id)", "LAG(id RESPECT NULLS) OVER (ORDER BY id)",),
    "a ranking without ORDER BY may answer differently each time": ("ROW_NUMBER() OVER ()", "RANK() OVER (PARTITION BY region)", "FIRST_VALUE(id) OVER ()",),
    "here OVER takes PARTITION BY only": ("SUM(DISTINCT id) OVER (ORDER BY id)", "COUNT(DISTINCT id) OVER (PARTITION BY region ORDER BY id)", "PERCENTILE_CONT(score, 0.5) OVER (ORDER BY id)", "PERCENTILE_CONT(score, 0.5) OVER (ROWS 1 PRECEDING)", "COUNT(DISTINCT id) OVER (ROWS 1 PRECEDING)",),
    "a window function takes a typed value": ("LAG(NULL) OVER (ORDER BY id)", "FIRST_VALUE(NULL) OVER (ORDER BY id)",),
    "NTH_VALUE takes a written number of 1 or more": ("NTH_VALUE(id, 0) OVER (ORDER BY id)",),
    "NTILE takes a written number of 1 or more": ("NTILE(0) OVER (ORDER BY id)", "NTILE(id) OVER (ORDER BY id)", "NTILE(1.5) OVER (ORDER BY id)",),
    "NTILE takes INT64, not STRING": ("NTILE('2') OVER (ORDER BY id)",),
    "LAG takes a written number of 0 or more": ("LAG(id, -1) OVER (ORDER BY id)", "LAG(id, id) OVER (ORDER BY id)",),
    "a percentile is a written number from 0 to 1": ("PERCENTILE_CONT(score, 1.5) OVER ()", "PERCENTILE_CONT(score, score) OVER ()", "PERCENTILE_CONT(score, '0.5') OVER ()", "PERCENTILE_CONT(score, -0.5) OVER ()",),
    "ORDER BY inside takes columns and expressions": ("ROW_NUMBER() OVER (ORDER BY 1)", "ROW_NUMBER() OVER (ORDER BY [id])", "ROW_NUMBER() OVER (ORDER BY STRUCT(id AS a))",),
    "a window frame needs ROWS or RANGE and an ORDER BY": ("SUM(id) OVER (ROWS 1 PRECEDING)", "SUM(id) OVER (ORDER BY id GROUPS 1 PRECEDING)",),
    "a ranking takes no window frame": ("ROW_NUMBER() OVER (ORDER BY id ROWS 1 PRECEDING)",),
    "a window frame is bounded by written numbers of ROWS, or of RANGE over one INT64": ("SUM(id) OVER (ORDER BY id ROWS id PRECEDING)", "SUM(id) OVER (ORDER BY id ROWS '1' PRECEDING)", "SUM(id) OVER (ORDER BY id ROWS 1.5 PRECEDING)", "SUM(id) OVER (ORDER BY day RANGE 1 PRECEDING)", "SUM(id) OVER (ORDER BY id, region RANGE 1 PRECEDING)", "SUM(id) OVER (ORDER BY id RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW)",),
    "a window frame ends before it starts": ("SUM(id) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING)", "SUM(id) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW)", "SUM(id) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)", "SUM(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING)", "SUM(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED PRECEDING)", "SUM(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW)", "SUM(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND UNBOUNDED PRECEDING)",),
}  # fmt: skip
"""What stands over a window."""
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "an array of NULL needs a type; write ARRAY<…>[NULL]": ("ARRAY_LENGTH([NULL])", "[NULL]",),
    "an ARRAY of ARRAY does not exist; put a STRUCT between them": ("ARRAY_LENGTH([[1]])",),
    "with DISTINCT, ORDER BY takes output columns": ("ARRAY(SELECT DISTINCT id FROM orders ORDER BY region)", "ARRAY(SELECT DISTINCT id + 1 FROM orders ORDER BY id + 1)"),
    "a STRUCT has a field": ("STRUCT().a", "STRUCT()",),
    "a subscript takes an ARRAY, not NULL": ("NULL[OFFSET(0)]",),
    "a subscript takes an ARRAY, not ARRAY<NULL>": ("[][OFFSET(0)]",),
    "ARRAY_CONCAT takes arrays": ("ARRAY_CONCAT(1, 2)", "ARRAY_CONCAT(id)", "ARRAY_CONCAT('a', 'b')", "ARRAY_CONCAT(NULL, NULL)",),
    "the STRUCT has other fields than STRUCT<a INT64>": ("ARRAY<STRUCT<a INT64>>[STRUCT(1 AS b)]", "STRUCT<a INT64>(1, 2)", "CAST(STRUCT(1 AS b) AS STRUCT<a INT64>)",),
}  # fmt: skip
"""Arrays and structs."""
WHOLE: Final[dict[str, tuple[str, ...]]] = {
    "COUNT takes one expression": ("COUNT(id, region)", "COUNT()",),
    "DISTINCT takes one expression here": ("COUNT(DISTINCT id, region)", "SUM(DISTINCT id, score)",),
    "SUM(DISTINCT) takes numbers": ("SUM(DISTINCT note)", "SUM(DISTINCT [1])",),
    "AVG(DISTINCT) takes numbers": ("AVG(DISTINCT NULL)",),
    "MIN and MAX take a typed value": ("MIN(NULL)", "MAX([1])", "MIN(STRUCT(1 AS a))",),
    "BIT_AND takes INT64": ("BIT_AND(score)",),
    "BIT_OR takes INT64": ("BIT_OR(note)",),
    "BIT_XOR takes INT64": ("BIT_XOR(NULL)",),
    "the LIMIT of STRING_AGG is a written number": ("STRING_AGG(note, ',' ORDER BY id LIMIT id)", "STRING_AGG(note, ',' ORDER BY id LIMIT 1+1)",),
    "STRING_AGG needs an ORDER BY inside, or it may answer differently each time": ("STRING_AGG(note, ',')", "STRING_AGG(note)", "STRING_AGG(note, ',' LIMIT 2)",),
    "the separator of STRING_AGG is written text": ("STRING_AGG(note, region ORDER BY id)", "STRING_AGG(note, 1 ORDER BY id)",),
    "STRING_AGG(DISTINCT x) takes ORDER BY x alone": ("STRING_AGG(DISTINCT note, ',' ORDER BY id)", "STRING_AGG(DISTINCT note, ',' ORDER BY note, id)",),
    "ORDER BY inside takes columns and expressions": ("STRING_AGG(CAST(id AS STRING), ',' ORDER BY 1)", "STRING_AGG(note, ',' ORDER BY [id])", "ARRAY_AGG(id ORDER BY 1)", "ARRAY_AGG(id ORDER BY region, 'x')",),
    "STRING_AGG takes STRING": ("STRING_AGG(id, ',' ORDER BY id)",),
    "ROW_NUMBER needs OVER": ("ROW_NUMBER()",),
    "LAG needs OVER": ("LAG(id)",),
    "FIRST_VALUE needs OVER": ("FIRST_VALUE(id)",),
    "PERCENTILE_CONT needs OVER": ("PERCENTILE_CONT(score, 0.5)",),
    "CORR takes FLOAT64, not STRING; write CAST(… AS FLOAT64)": ("CORR(note, score)",),
    "STDDEV takes FLOAT64, not STRING; write CAST(… AS FLOAT64)": ("STDDEV(note)",),
    "LOGICAL_AND takes BOOL, not INT64": ("LOGICAL_AND(id)",),
    "COUNTIF takes BOOL, not INT64": ("COUNTIF(id)",),
    "IGNORE NULLS is accepted in ARRAY_AGG only": ("SUM(id IGNORE NULLS)", "MIN(id IGNORE NULLS)",),
    "ARRAY_AGG needs an ORDER BY inside, or it may answer differently each time": ("ARRAY_AGG(id)", "ARRAY_AGG(id LIMIT 3)",),
    "ARRAY_AGG takes a typed value that is no ARRAY": ("ARRAY_AGG(NULL ORDER BY id)", "ARRAY_AGG([id] ORDER BY id)",),
    "the LIMIT of ARRAY_AGG is a written number": ("ARRAY_AGG(id ORDER BY id LIMIT id)",),
    "ARRAY_AGG(DISTINCT x) takes ORDER BY x alone, and no STRUCT": ("ARRAY_AGG(DISTINCT id ORDER BY region)",),
}  # fmt: skip
"""Aggregates, in a query of one row."""

PER_ROW: Final = [(said, sql) for refused in (ROWS, WINDOWS, PARTS) for said, sqls in refused.items() for sql in sqls]
OF_ALL: Final = [(said, sql) for said, sqls in WHOLE.items() for sql in sqls]


def refusal(sql: str) -> str:
    with pytest.raises(TemplateError) as refused:
        template(sql, "x:STRING", tables=(*TABLES, *NESTED))
    return refused.value.reason


@pytest.mark.parametrize(("said", "sql"), PER_ROW, ids=[sql for _, sql in PER_ROW])
def test_what_has_no_type_in_a_row_is_refused_by_name(said: str, sql: str) -> None:
    assert refusal(f"SELECT {sql} AS x FROM orders ORDER BY id") == said


@pytest.mark.parametrize(("said", "sql"), OF_ALL, ids=[sql for _, sql in OF_ALL])
def test_what_has_no_type_over_all_rows_is_refused_by_name(said: str, sql: str) -> None:
    assert refusal(f"SELECT {sql} AS x FROM orders") == said


def test_a_call_that_reads_no_format_has_no_reading() -> None:
    call = exp.Anonymous(this="PARSE_DATE")
    call.meta[_READING] = "%Y"
    with pytest.raises(TypeError):
        reading_of(call)


@pytest.mark.parametrize(
    "sql", ["STRING_AGG(note, ',' ORDER BY)", "ARRAY_AGG(id ORDER BY)", "NTH_VALUE(id) OVER (ORDER BY id)"]
)
def test_what_is_not_complete_is_no_googlesql(sql: str) -> None:
    assert refusal(f"SELECT {sql} AS x FROM orders").startswith("not GoogleSQL: ")
