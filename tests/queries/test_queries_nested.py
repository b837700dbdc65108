"""Arrays and structs in templates: every answer is the one that ZetaSQL gave, or the query fails where it must."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.verdict import NotGranted, Reason
from queries.duckdb_engine import DuckDbEngine
from queries.errors import TemplateError
from tests.queries.documents import run as run_whole
from tests.queries.nested_world import answer, open_engine, parameter, template

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("nested_cases.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    made = open_engine(tmp_path_factory.mktemp("nested"))
    yield made
    asyncio.run(made.close())


def ask(engine: DuckDbEngine, sql: str, types: list[str], *parameters: Any, **arguments: Any) -> list[list[Any]]:
    loaded = template(sql, {f"c{place}": kind for place, kind in enumerate(types)}, *parameters)
    return asyncio.run(answer(engine, loaded, arguments))


@pytest.mark.parametrize("case", CASES, ids=[case["sql"] for case in CASES])
def test_a_nested_value_is_what_zetasql_says(engine: DuckDbEngine, case: dict[str, Any]) -> None:
    if case.get("fails"):
        with pytest.raises(NotGranted) as failed:
            ask(engine, case["sql"], case["types"])
        assert failed.value.reason in (Reason.EXECUTION_FAILED, Reason.RESULT_INVALID)
    else:
        assert ask(engine, case["sql"], case["types"]) == case["rows"]


def test_rows_that_tie_in_every_scalar_column_are_ordered_by_their_nested_ones(engine: DuckDbEngine) -> None:
    sql = "SELECT d.k AS c0, d.tags AS c1, d.lines AS c2 FROM deep AS d CROSS JOIN UNNEST([1, 2, 3]) AS x ORDER BY d.k"
    types = ["STRING", "ARRAY<STRING>", "ARRAY<STRUCT<sku STRING, qty INT64, t ARRAY<STRING>>>"]
    first = ask(engine, sql, types)
    assert [ask(engine, sql, types) for _ in range(5)] == [first] * 5
    assert [row[1] for row in first[3:9]] == [[], [], [], ["b", "a"], ["b", "a"], ["b", "a"]]


def test_elements_that_tie_in_the_order_of_an_aggregate_are_ordered_by_their_value(engine: DuckDbEngine) -> None:
    sql = "SELECT ARRAY_AGG(x ORDER BY MOD(x, 2)) AS c0 FROM UNNEST(GENERATE_ARRAY(1, 9)) AS x"
    assert ask(engine, sql, ["ARRAY<INT64>"]) == [[[2, 4, 6, 8, 1, 3, 5, 7, 9]]]
    sql = "SELECT ARRAY(SELECT AS STRUCT x FROM UNNEST(GENERATE_ARRAY(1, 6)) AS x ORDER BY MOD(x, 2)) AS c0"
    assert ask(engine, sql, ["ARRAY<STRUCT<x INT64>>"]) == [[[{"x": x} for x in (2, 4, 6, 1, 3, 5)]]]


@pytest.mark.parametrize(
    ("made", "argument"),
    [
        ("GENERATE_ARRAY(1, 1000001)", 1),
        ("GENERATE_ARRAY(1, @n)", 1_000_001),
        ("GENERATE_ARRAY(1, @n)", str(2**63 - 1)),
        ("GENERATE_DATE_ARRAY('0001-01-01', DATE_ADD('0001-01-01', INTERVAL @n DAY))", 3_000_000),
    ],
)
def test_an_array_of_more_than_a_million_elements_fails_before_it_is_made(
    engine: DuckDbEngine, made: str, argument: Any
) -> None:
    for sql in (f"SELECT ARRAY_LENGTH({made}) AS c0", f"SELECT COUNT(*) AS c0 FROM UNNEST({made}) AS x"):
        with pytest.raises(NotGranted) as failed:
            ask(
                engine,
                f"{sql} WHERE @n > 0" if "FROM" in sql else sql.replace("AS c0", "+ 0 * @n AS c0"),
                ["INT64"],
                parameter("n", "INT64"),
                n=argument,
            )
        assert failed.value.reason is Reason.EXECUTION_FAILED


def test_an_array_of_a_million_elements_is_made(engine: DuckDbEngine) -> None:
    assert ask(engine, "SELECT SUM(x) AS c0 FROM UNNEST(GENERATE_ARRAY(1, 1000000)) AS x", ["INT64"]) == [
        [500000500000]
    ]


def test_masks_are_below_what_reads_a_nested_column_and_rows_of_it_cannot_be_constrained(engine: DuckDbEngine) -> None:
    from queries.bind import bind
    from tests.authority_builder import make_authority

    sql = (
        "SELECT d.id AS c0, d.s AS c1, ARRAY_LENGTH(d.tags) AS c2, ARRAY(SELECT l.sku FROM UNNEST(d.lines) AS l ORDER BY 1) AS c3 "
        "FROM deep AS d WHERE d.id = 1 ORDER BY 1"
    )
    kind = "STRUCT<x INT64, y STRUCT<z STRING, w ARRAY<DATE>>>"
    loaded = template(sql, {"c0": "INT64", "c1": kind, "c2": "INT64", "c3": "ARRAY<STRING>"})
    assert loaded.columns_read == {"deep.id", "deep.s", "deep.tags", "deep.lines"}

    def run(**more: Any) -> Any:
        authority = make_authority(dataset="nest", capability="c", **more)
        call = run_whole(
            engine, authority, loaded, bind(loaded, {}), max_rows=9, max_bytes=9_999, as_of="2026-08-31T22:00:00Z"
        )
        return json.loads(asyncio.run(call)[0].body)["rows"]

    assert run(masks={"deep.s": "hash", "deep.tags": "null", "deep.lines": "truncate"}) == [[1, None, 0, []]]
    for name in ("deep.tags", "deep.s"):
        with pytest.raises(NotGranted) as refused:
            run(rows={name: {"one_of": ["a"]}})
        assert refused.value.reason is Reason.GRANT_CONSTRAINT_UNKNOWN
    assert run(rows={"deep.id": {"one_of": [2]}}) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT k AS c0 FROM deep, UNNEST(tags) AS k ORDER BY 1", "both an element and a column"),
        ("SELECT t AS c0 FROM deep, UNNEST(tags) AS t WITH OFFSET AS id ORDER BY id", "column of two tables"),
        ("SELECT i AS c0 FROM deep, UNNEST(tags) AS i WITH OFFSET AS i ORDER BY 1", "both an element and a column"),
        ("SELECT sku AS c0 FROM deep, UNNEST(lines) AS l ORDER BY 1", "write its table or alias"),
        ("SELECT name AS c0 FROM other, UNNEST([STRUCT('a' AS name)]) AS l ORDER BY 1", "also a field of an UNNEST"),
        ("SELECT (SELECT MAX(name) FROM UNNEST([STRUCT('z' AS name)]) AS l) AS c0 FROM other ORDER BY other.id", "also a field of an UNNEST"),
        ("SELECT o.k AS s FROM deep AS o ORDER BY s.x", "alias or the table"),
        ("SELECT lines AS l FROM deep, UNNEST(lines) AS l ORDER BY l.qty", "alias or the table"),
        ("SELECT t AS c0 FROM UNNEST(deep.tags) AS t, deep ORDER BY 1", "no column of a table here"),
        ("SELECT q.t AS c0 FROM deep, (SELECT MAX(t) AS t FROM UNNEST(deep.tags) AS t) AS q ORDER BY 1", "could not be resolved"),
        ("SELECT (WITH w AS (SELECT COUNT(*) AS n FROM UNNEST(deep.tags) AS t) SELECT w.n FROM w) AS c0 FROM deep ORDER BY 1", "no column"),
        ("SELECT t AS c0 FROM deep, UNNEST(tags) AS t, UNNEST(tags) AS t ORDER BY 1", "two tables have the alias t"),
        ("SELECT d.lines.sku AS c0 FROM deep AS d ORDER BY 1", "an ARRAY has no field sku"),
        ("SELECT d.s.gone AS c0 FROM deep AS d ORDER BY 1", "the STRUCT has no field gone; it has x, y"),
        ("SELECT d.k.gone AS c0 FROM deep AS d ORDER BY 1", "STRING has no field gone"),
        ("SELECT k[OFFSET(0)] AS c0 FROM deep ORDER BY 1", "a subscript takes an ARRAY, not STRING"),
        ("SELECT tags[OFFSET('a')] AS c0 FROM deep ORDER BY 1", "a subscript is an INT64"),
        ("SELECT [1, 'a'] AS c0", "have no common type"),
        ("SELECT [STRUCT(1 AS a), STRUCT(1 AS b)] AS c0", "have no common type"),
        ("SELECT [[1]] AS c0", "an ARRAY of ARRAY does not exist"),
        ("SELECT ARRAY(SELECT tags FROM deep ORDER BY id) AS c0", "an ARRAY of ARRAY does not exist"),
        ("SELECT [NULL] AS c0", "needs a type"),
        ("SELECT [] AS c0", "needs a type"),
        ("SELECT STRUCT(NULL AS x) AS c0", "a NULL field needs a type"),
        ("SELECT STRUCT(1 AS x, 2 AS X) AS c0", "names a field twice"),
        ("SELECT STRUCT(1, 2) AS c0", "each field of a STRUCT has a name"),
        ("SELECT STRUCT<INT64>(1) AS c0", "each field of a STRUCT type has a name"),
        ("SELECT STRUCT<x INT64>('a') AS c0", "does not convert to INT64"),
        ("SELECT STRUCT<x INT64>(1, 2) AS c0", "other fields than"),
        ("SELECT (1, 2) AS c0", "a tuple has no names"),
        ("SELECT STRUCT(STRUCT(STRUCT(STRUCT(STRUCT(STRUCT(1 AS f) AS e) AS d) AS c) AS b) AS a) AS c0", "more than 5 deep"),
        ("SELECT CAST(nums AS ARRAY<STRING>) AS c0 FROM deep ORDER BY id", "does not convert"),
        ("SELECT CAST(tags AS STRING) AS c0 FROM deep ORDER BY id", "not accepted"),
        ("SELECT CAST(NULL AS ARRAY<ARRAY<INT64>>) AS c0", "an ARRAY of ARRAY does not exist"),
        ("SELECT tags = ['a'] AS c0 FROM deep ORDER BY id", "an ARRAY cannot be used here"),
        ("SELECT s = s AS c0 FROM deep ORDER BY id", "a STRUCT cannot be used here"),
        ("SELECT id AS c0 FROM deep ORDER BY tags", "no order and no groups"),
        ("SELECT COUNT(*) AS c0 FROM deep GROUP BY s ORDER BY 1", "no order and no groups"),
        ("SELECT tags AS c0 FROM deep GROUP BY 1 ORDER BY 1", "no order and no groups"),
        ("SELECT DISTINCT tags AS c0 FROM deep ORDER BY 1", "DISTINCT takes no ARRAY or STRUCT"),
        ("SELECT COUNT(DISTINCT s) AS c0 FROM deep", "takes no ARRAY or STRUCT"),
        ("SELECT tags AS c0 FROM deep UNION DISTINCT SELECT tags FROM deep ORDER BY 1", "UNION ALL alone"),
        ("SELECT MAX(s) AS c0 FROM deep", "MIN and MAX"),
        ("SELECT SUM(id) OVER (PARTITION BY s) AS c0 FROM deep ORDER BY 1", "PARTITION BY"),
        ("SELECT id AS c0 FROM deep WHERE s IN (SELECT s FROM deep) ORDER BY id", "IN takes"),
        ("SELECT id AS c0 FROM deep WHERE s IN UNNEST([s]) ORDER BY id", "not of STRUCT"),
        ("SELECT ARRAY_LENGTH(k) AS c0 FROM deep ORDER BY id", "ARRAY_LENGTH takes an ARRAY, not STRING"),
        ("SELECT ARRAY_TO_STRING(nums, ',') AS c0 FROM deep ORDER BY id", "takes an ARRAY<STRING>"),
        ("SELECT ARRAY_CONCAT(tags, nums) AS c0 FROM deep ORDER BY id", "have no common type"),
        ("SELECT ARRAY_AGG(tags ORDER BY id) AS c0 FROM deep", "no ARRAY"),
        ("SELECT ARRAY_AGG(DISTINCT id ORDER BY k) AS c0 FROM deep", "ORDER BY x alone"),
        ("SELECT ARRAY_AGG(id ORDER BY id LIMIT @n) AS c0 FROM deep", "written number"),
        ("SELECT ARRAY(SELECT id FROM deep ORDER BY id LIMIT 1 OFFSET 1) AS c0 FROM deep RIGHT JOIN UNNEST(tags) AS t ON TRUE ORDER BY 1", "RIGHT JOIN"),
        ("SELECT id AS c0 FROM deep JOIN UNNEST([1]) AS x USING (id) ORDER BY 1", "USING"),
        ("SELECT GENERATE_ARRAY(1, 2.5) AS c0", "takes INT64"),
        ("SELECT GENERATE_DATE_ARRAY('2024-01-01', '2024-01-02', INTERVAL 1 HOUR) AS c0", "INTERVAL of DAY"),
    ],
)  # fmt: skip
def test_what_has_two_meanings_or_none_is_refused_and_says_why(sql: str, said: str) -> None:
    with pytest.raises(TemplateError) as refused:
        template(sql, {"c0": "INT64"}, *([parameter("n", "INT64")] if "@n" in sql else []))
    assert said in refused.value.reason
