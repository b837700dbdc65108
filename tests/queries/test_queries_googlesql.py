"""GoogleSQL's meaning on DuckDB: expected values are those of ZetaSQL, Google's own implementation.

``googlesql_cases.json`` holds expressions with their type and what ZetaSQL answered
(``default_timezone`` UTC): ``{"is": value}`` in the encoding of results, or ``"error"``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.verdict import NotGranted, Reason
from queries.bind import bind
from queries.duckdb_dialect import RULES as DUCKDB_RULES
from queries.duckdb_engine import DuckDbEngine
from queries.elaborate import RULES
from queries.errors import TemplateError
from queries.vocabulary import ALLOWED
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, TABLES, shop, template

CASES: list[tuple[str, str, Any]] = [
    tuple(case) for case in json.loads((Path(__file__).parent / "googlesql_cases.json").read_text())
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DuckDbEngine:
    folder = shop(tmp_path_factory.mktemp("googlesql"))
    return DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=folder / "scratch", mask_key=MASK_KEY)


@pytest.mark.parametrize(("expression", "kind", "expected"), CASES, ids=[case[0] for case in CASES])
async def test_an_expression_means_what_zetasql_says(
    engine: DuckDbEngine, expression: str, kind: str, expected: Any
) -> None:
    loaded = template(f"SELECT {expression} AS x", f"x:{kind}")
    authority = make_authority(dataset=DATASET, capability="c")
    run = run_whole(engine, authority, loaded, bind(loaded, {}), max_rows=1, max_bytes=10_000, as_of="x")
    if expected == "error":
        with pytest.raises(NotGranted) as failed:
            await run
        assert failed.value.reason is Reason.EXECUTION_FAILED
    else:
        document, _ = await run
        assert json.loads(document.body)["rows"] == [[expected["is"]]]
        await engine.check(loaded)


TABLE = """
WITH t AS (
  SELECT 1 AS id, 'x' AS s, 3 AS a, NUMERIC '1.5' AS n, 0.5 AS f, TRUE AS b
  UNION ALL SELECT 2 AS id, 'x' AS s, NULL_INT AS a, NUMERIC '2' AS n, 1.25 AS f, FALSE AS b
  UNION ALL SELECT 3 AS id, 'y' AS s, 4 AS a, NUMERIC '-0.1' AS n, CAST(NULL AS FLOAT64) AS f, CAST(NULL AS BOOL) AS b
  UNION ALL SELECT 4 AS id, CAST(NULL AS STRING) AS s, 4 AS a, CAST(NULL AS NUMERIC) AS n, -2.5 AS f, TRUE AS b
)
""".replace("NULL_INT", "CAST(NULL AS INT64)")


@pytest.mark.parametrize(
    ("expression", "kind", "expected"),
    [
        ("SUM(a)", "INT64", 11), ("AVG(a)", "FLOAT64", 3.6666666666666665), ("AVG(n)", "NUMERIC", "1.133333333"),
        ("SUM(n)", "NUMERIC", "3.4"), ("SUM(f)", "FLOAT64", -0.75), ("COUNT(*)", "INT64", 4), ("COUNT(a)", "INT64", 3),
        ("COUNT(DISTINCT a)", "INT64", 2), ("COUNTIF(b)", "INT64", 2), ("COUNTIF(a > 100)", "INT64", 0),
        ("LOGICAL_AND(b)", "BOOL", False), ("MAX(s)", "STRING", "y"), ("STRING_AGG(s, '|' ORDER BY id DESC)", "STRING", "y|x|x"),
        ("STRING_AGG(DISTINCT s ORDER BY s)", "STRING", "x,y"), ("ROUND(STDDEV(a), 6)", "FLOAT64", 0.57735),
        ("SUM(n) / COUNT(*)", "NUMERIC", "0.85"), ("SAFE_DIVIDE(SUM(a), 0)", "FLOAT64", None), ("MIN(f)", "FLOAT64", -2.5),
    ],
)  # fmt: skip
async def test_an_aggregate_means_what_zetasql_says(
    engine: DuckDbEngine, expression: str, kind: str, expected: Any
) -> None:
    assert await _column(engine, f"{TABLE} SELECT {expression} AS x FROM t", f"x:{kind}") == [expected]


@pytest.mark.parametrize(
    ("expression", "kind", "expected"),
    [
        ("ROW_NUMBER() OVER (PARTITION BY s ORDER BY id)", "INT64", [1, 2, 1, 1]),
        ("RANK() OVER (ORDER BY a)", "INT64", [2, 1, 3, 3]),
        ("DENSE_RANK() OVER (ORDER BY a DESC)", "INT64", [2, 3, 1, 1]),
        ("LAG(a, 1, 99) OVER (ORDER BY id)", "INT64", [99, 3, None, 4]),
        ("LAST_VALUE(n) OVER (PARTITION BY s ORDER BY id)", "NUMERIC", ["1.5", "2", "-0.1", None]),
        ("AVG(n) OVER (ORDER BY id)", "NUMERIC", ["1.5", "1.75", "1.133333333", "1.133333333"]),
        ("SUM(a) OVER (ORDER BY a)", "INT64", [3, None, 11, 11]),
        ("COUNTIF(b) OVER (PARTITION BY s)", "INT64", [1, 1, 0, 1]),
        ("PERCENTILE_CONT(f, 0.5) OVER ()", "FLOAT64", [0.5] * 4),
        ("PERCENTILE_CONT(f, 0.25) OVER (PARTITION BY s)", "FLOAT64", [0.6875, 0.6875, None, -2.5]),
        ("NTILE(3) OVER (ORDER BY id)", "INT64", [1, 1, 2, 3]),
    ],
)
async def test_a_window_means_what_zetasql_says(
    engine: DuckDbEngine, expression: str, kind: str, expected: list[Any]
) -> None:
    sql = f"{TABLE} SELECT x FROM (SELECT id, {expression} AS x FROM t) AS w ORDER BY w.id"
    assert await _column(engine, sql, f"x:{kind}") == expected


async def test_nulls_come_first_ascending_and_last_descending(engine: DuckDbEngine) -> None:
    assert await _column(engine, f"{TABLE} SELECT s FROM t ORDER BY s", "s:STRING") == [None, "x", "x", "y"]
    assert await _column(engine, f"{TABLE} SELECT s FROM t ORDER BY s DESC", "s:STRING") == ["y", "x", "x", None]
    assert await _column(engine, f"{TABLE} SELECT s FROM t ORDER BY s NULLS LAST", "s:STRING") == ["x", "x", "y", None]


@pytest.mark.parametrize(
    "expression",
    ["PERCENTILE_DISC(a, 0.5) OVER ()", "ARRAY_AGG(a)", "APPROX_COUNT_DISTINCT(a)", "INITCAP(s)", "SHA512(s)", "a << 1",
     "INSTR(s, 'x', 1, 2)", "CAST(f AS BOOL)", "CAST(s AS BIGNUMERIC)",
     "ROUND(f, a)", "FORMAT_DATE('%c', DATE '2024-01-01')", "TIMESTAMP_TRUNC(TIMESTAMP '2024-01-01 00:00:00+00', DAY, '+05:30')",
     "EXTRACT(HOUR FROM TIMESTAMP '2024-01-01 00:00:00+00' AT TIME ZONE '+05:30')", "REGEXP_CONTAINS(s, s)",
     "DATE_ADD(DATE '2024-01-01', INTERVAL 1 HOUR)", "SQRT(n)", "s + a", "s || a", "a AND b", "IEEE_DIVIDE(a, 0)"],
)  # fmt: skip
def test_what_has_no_meaning_shared_by_the_engines_is_refused(expression: str) -> None:
    with pytest.raises(TemplateError):
        template(f"{TABLE} SELECT {expression} AS x FROM t ORDER BY 1", "x:INT64")


def test_every_node_with_a_type_may_occur_and_every_translated_node_has_one() -> None:
    assert set(RULES) <= set(ALLOWED)
    assert {node.__name__ for node in set(DUCKDB_RULES) - set(RULES)} == {"Join", "Unnest"}


async def _column(engine: DuckDbEngine, sql: str, declared: str) -> list[Any]:
    loaded = template(sql, declared)
    await engine.check(loaded)
    authority = make_authority(dataset=DATASET, capability="c")
    document, _ = await run_whole(
        engine, authority, loaded, bind(loaded, {}), max_rows=100, max_bytes=10_000, as_of="x"
    )
    return [row[0] for row in json.loads(document.body)["rows"]]
