"""Rows a call supplies: read like a table and never governed, beside base tables that always are."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from contract.authority import Authority
from contract.result import ResultDocument
from contract.schema import ResultColumn, Table
from contract.verdict import NotGranted, Reason
from queries import supplied as supplied_module
from queries.bind import bind
from queries.duckdb_dialect import to_duckdb
from queries.duckdb_engine import DuckDbEngine
from queries.govern import govern, rewrite
from queries.supplied import SUPPLIED, SuppliedRelation
from queries.template import Template
from queries.typed import declared_type
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.oracle import AUTHORITIES, narrowed_by, oracle, reaching
from tests.queries.supplied_world import AS_OF, PEAKS, PEAKS_TABLE, document, peaks, supplied_template
from tests.queries.world import DATASET, MASK_KEY, TABLES, parameter, results, rows, shop, write

READS: list[tuple[str, str]] = [
    ("SELECT p.order_id, p.region FROM peaks AS p ORDER BY 1, 2", "order_id:INT64 region:STRING"),
    ("SELECT COUNT(*) AS n FROM peaks", "n:INT64"),
    ("SELECT COUNT(*) AS n FROM peaks CROSS JOIN orders", "n:INT64"),
    ("SELECT o.id, o.note, p.area FROM orders AS o JOIN peaks AS p ON p.order_id = o.id ORDER BY 1, 2, 3", "id:INT64 note:STRING area:FLOAT64"),
    ("SELECT o.id, p.good FROM orders AS o LEFT JOIN peaks AS p ON p.order_id = o.id ORDER BY 1, 2", "id:INT64 good:BOOL"),
    ("SELECT o.id, p.region FROM peaks AS p LEFT JOIN orders AS o ON p.order_id = o.id ORDER BY 1, 2", "id:INT64 region:STRING"),
    ("SELECT o.id, p.order_id FROM orders AS o FULL JOIN peaks AS p ON p.order_id = o.id ORDER BY 1, 2", "id:INT64 order_id:INT64"),
    ("SELECT region, COUNT(*) AS n FROM orders JOIN peaks USING (region) GROUP BY region ORDER BY region", "region:STRING n:INT64"),
    ("SELECT o.id FROM orders AS o, peaks AS p WHERE p.order_id = o.id AND p.area > 1 ORDER BY 1", "id:INT64"),
    ("SELECT id FROM orders WHERE id IN (SELECT order_id FROM peaks WHERE good) ORDER BY id", "id:INT64"),
    ("SELECT order_id FROM peaks WHERE order_id IN (SELECT id FROM orders WHERE region = 'EU') ORDER BY 1", "order_id:INT64"),
    ("SELECT x.region, x.n FROM (SELECT region, COUNT(*) AS n FROM peaks GROUP BY region) AS x JOIN (SELECT region, COUNT(*) AS m FROM orders GROUP BY region) AS y ON y.region = x.region ORDER BY 1", "region:STRING n:INT64"),
    ("WITH p AS (SELECT order_id, MAX(area) AS top FROM peaks GROUP BY order_id) SELECT o.id, p.top, o.amount FROM orders AS o JOIN p ON p.order_id = o.id ORDER BY 1", "id:INT64 top:FLOAT64 amount:NUMERIC"),
    ("WITH eu AS (SELECT id, region FROM orders), both AS (SELECT eu.id, p.region FROM eu JOIN peaks AS p ON p.order_id = eu.id) SELECT id, region FROM both ORDER BY 1, 2", "id:INT64 region:STRING"),
    ("WITH unused AS (SELECT id FROM customers) SELECT o.id FROM orders AS o JOIN peaks AS p ON p.order_id = o.id ORDER BY 1", "id:INT64"),
    ("WITH z AS (SELECT order_id FROM peaks) SELECT z.id FROM orders AS z WHERE EXISTS (SELECT 1 FROM peaks AS z WHERE z.area > 8) ORDER BY 1", "id:INT64"),
    ("SELECT p.order_id, q.region FROM peaks AS p JOIN peaks AS q ON q.order_id = p.order_id AND q.area < p.area ORDER BY 1, 2", "order_id:INT64 region:STRING"),
    ("SELECT a.id, b.id AS other FROM orders AS a JOIN peaks AS p ON p.order_id = a.id JOIN orders AS b ON b.customer = a.customer ORDER BY 1, 2", "id:INT64 other:INT64"),
    ("SELECT region FROM orders UNION ALL SELECT region FROM peaks ORDER BY 1", "region:STRING"),
    ("SELECT region FROM peaks UNION DISTINCT SELECT region FROM customers ORDER BY 1", "region:STRING"),
    ("SELECT id FROM orders EXCEPT DISTINCT SELECT order_id FROM peaks ORDER BY 1", "id:INT64"),
    ("SELECT order_id FROM peaks INTERSECT DISTINCT SELECT id FROM orders ORDER BY 1", "order_id:INT64"),
    ("SELECT o.id, (SELECT COUNT(*) FROM peaks AS p WHERE p.order_id = o.id) AS n FROM orders AS o ORDER BY 1", "id:INT64 n:INT64"),
    ("SELECT p.order_id, (SELECT MAX(o.note) FROM orders AS o WHERE o.id = p.order_id) AS note FROM peaks AS p ORDER BY 1, 2", "order_id:INT64 note:STRING"),
    ("SELECT c.id, (SELECT COUNT(*) FROM orders AS o JOIN peaks AS p ON p.order_id = o.id AND p.region = c.region WHERE o.customer = c.id) AS n FROM customers AS c ORDER BY 1", "id:INT64 n:INT64"),
    ("SELECT o.id FROM orders AS o WHERE NOT EXISTS (SELECT 1 FROM peaks AS p JOIN lines AS l ON l.order_id = p.order_id WHERE l.order_id = o.id) ORDER BY 1", "id:INT64"),
    ("SELECT o.id, SUM(p.area) OVER (PARTITION BY o.region ORDER BY o.id, p.area ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders AS o JOIN (SELECT DISTINCT order_id, area FROM peaks WHERE area = 0.5) AS p ON p.order_id = o.id ORDER BY 1, 2", "id:INT64 s:FLOAT64"),
]  # fmt: skip
LIMITS: dict[str, Any] = {"max_rows": 100_000, "max_bytes": 10**8, "as_of": AS_OF}
JOIN = "SELECT o.id, p.area FROM orders AS o JOIN peaks AS p ON p.order_id = o.id ORDER BY 1, 2"
JOINED = "id:INT64 area:FLOAT64"


def opened(folder: Path, tables: Any = TABLES) -> DuckDbEngine:
    return DuckDbEngine.open(DATASET, "1.0.0", folder, tables, scratch=folder / "scratch", mask_key=MASK_KEY)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[DuckDbEngine]:
    made = opened(shop(tmp_path))
    yield made
    await made.close()


def authority(**case: Any) -> Authority:
    return make_authority(dataset=DATASET, capability="c", **case)


async def run(engine: DuckDbEngine, loaded: Template, supplied: ResultDocument | None, **more: Any) -> list[Any]:
    bound = bind(loaded, more.pop("arguments", {}))
    found, _ = await run_whole(engine, authority(**more), loaded, bound, supplied=supplied, **LIMITS)
    answer: list[Any] = json.loads(found.body)["rows"]
    return answer


async def refused(engine: DuckDbEngine, loaded: Template, supplied: ResultDocument | None, **more: Any) -> Reason:
    with pytest.raises(NotGranted) as stopped:
        await run(engine, loaded, supplied, **more)
    return stopped.value.reason


@cache
def once(sql: str, declared: str, tables: tuple[Table, ...], supplied: SuppliedRelation | None) -> Template:
    return supplied_template(sql, declared, tables=tables, supplied=supplied)


async def test_every_read_passes_the_check_on_its_tables(engine: DuckDbEngine) -> None:
    for sql, declared in READS:
        await engine.check(once(sql, declared, TABLES, PEAKS))


@pytest.mark.parametrize("name", AUTHORITIES)
async def test_base_tables_are_governed_and_supplied_rows_are_all_there(tmp_path: Path, name: str) -> None:
    """The oracle filters and masks the base tables first, has the supplied rows as one more table, and governs nothing."""
    case, data, brought = AUTHORITIES[name], rows(), peaks()
    governed = opened(shop(tmp_path / "real"))
    with_peaks = (*TABLES, PEAKS_TABLE)
    beforehand = opened(write(tmp_path / "oracle", oracle(data, case) | {"peaks": brought}, with_peaks), with_peaks)
    supplied = document(PEAKS.columns, brought)
    try:
        for sql, declared in READS:
            loaded = once(sql, declared, narrowed_by(case.get("grant_rows", ())), PEAKS)
            plain = once(sql, declared, with_peaks, None)
            got, _ = await run_whole(
                governed, authority(**reaching(case, loaded)), loaded, bind(loaded, {}), supplied=supplied, **LIMITS
            )
            wanted, _ = await run_whole(beforehand, authority(), plain, bind(plain, {}), **LIMITS)
            assert got.body == wanted.body, sql
    finally:
        await governed.close()
        await beforehand.close()


@pytest.mark.parametrize(("sql", "declared"), READS)
def test_every_base_table_of_the_text_is_physical_and_governed_and_the_supplied_rows_are_one_parameter(
    sql: str, declared: str
) -> None:
    loaded = once(sql, declared, TABLES, PEAKS)
    conditions = {f"{name}.id" if name != "lines" else "lines.order_id": {"min": 1} for name in loaded.tables_read}
    shape = govern(loaded, authority(rows=conditions)).shape
    text = to_duckdb(rewrite(loaded, shape))[0]
    assert text.count('"__data".') == text.count(">= CAST($__s")
    assert text.count(f"${SUPPLIED}") == 1
    assert f"UNNEST(@{SUPPLIED}) AS `_b`" in rewrite(loaded, shape).sql(dialect="bigquery")


def test_the_column_list_of_the_authority_is_about_base_tables_only() -> None:
    loaded = supplied_template(JOIN, JOINED)
    govern(loaded, authority(columns=["orders.id"], grant_columns=["orders.id", "orders.note"]))
    with pytest.raises(NotGranted) as stopped:
        govern(loaded, authority(columns=["peaks.area", "peaks.order_id"]))
    assert stopped.value.reason is Reason.COLUMN_NOT_PERMITTED


@pytest.mark.parametrize(
    "case",
    [
        {"rows": {"peaks.area": {"min": 1}}},
        {"rows": {"peaks.region": {"one_of": ["EU"]}}},
        {"rows": {"peaks.gone": {"one_of": ["EU"]}}},
        {"rows": {"Peaks.region": {"one_of": ["EU"]}}},
        {"rows": {"__supplied.region": {"one_of": ["EU"]}}},
        {"grant_rows": {"peaks.region": {"one_of": ["EU"]}}},
        {"rows": {"peaks.region": {"one_of": ["EU"]}}, "grant_rows": {"peaks.region": {"one_of": ["EU"]}}},
        {"masks": {"peaks.region": "null"}},
        {"masks": {"peaks.gone": "hash"}},
    ],
)
async def test_a_constraint_or_mask_on_supplied_rows_is_refused_and_not_ignored(
    engine: DuckDbEngine, case: dict[str, Any]
) -> None:
    loaded = supplied_template(JOIN, JOINED)
    assert await refused(engine, loaded, document(PEAKS.columns, peaks()), **case) is Reason.GRANT_CONSTRAINT_UNKNOWN


async def test_one_attribute_of_base_tables_is_constrained_as_before(engine: DuckDbEngine) -> None:
    sql = "SELECT o.id FROM orders AS o JOIN customers AS c ON c.id = o.customer JOIN peaks AS p ON p.order_id = o.id ORDER BY 1"
    loaded = supplied_template(sql, "id:INT64", tables=_region_attribute())
    supplied = document(PEAKS.columns, peaks())
    half = {"orders.region": {"one_of": ["EU"]}}
    assert await refused(engine, loaded, supplied, rows=half) is Reason.GRANT_CONSTRAINT_UNKNOWN
    await run(engine, loaded, supplied, rows=half | {"customers.region": {"one_of": ["EU"]}})


def _region_attribute() -> Any:
    return tuple(
        item.model_copy(
            update={
                "columns": tuple(
                    column.model_copy(update={"attribute": "region"}) if column.name == "region" else column
                    for column in item.columns
                )
            }
        )
        for item in TABLES
    )


async def test_rows_are_supplied_exactly_where_the_template_reads_some(engine: DuckDbEngine) -> None:
    reading = supplied_template(JOIN, JOINED)
    plain = supplied_template("SELECT id FROM orders ORDER BY id", "id:INT64", supplied=None)
    assert await refused(engine, reading, None) is Reason.EXECUTION_FAILED
    assert await refused(engine, plain, document(PEAKS.columns, peaks())) is Reason.EXECUTION_FAILED


async def test_no_rows_supplied_is_an_empty_relation(engine: DuckDbEngine) -> None:
    left = "SELECT COUNT(*) AS n, COUNT(p.area) AS m FROM orders AS o LEFT JOIN peaks AS p ON p.order_id = o.id"
    nothing = document(PEAKS.columns, [])
    assert await run(engine, supplied_template(left, "n:INT64 m:INT64"), nothing) == [[60, 0]]
    count = supplied_template("SELECT COUNT(*) AS n FROM peaks", "n:INT64")
    assert await run(engine, count, nothing) == [[0]]
    assert await run(engine, count, document(PEAKS.columns, peaks()[:3])) == [[3]]


INJECTIONS = ["' OR ''='", "x'; DROP TABLE orders; --", "\\", "$__s0", "@region", '"', "`", "\x1a", "\x00", "𝕏", "; SELECT 1", "{'a': 1}", "[1]", "NULL"]  # fmt: skip


async def test_supplied_text_that_looks_like_sql_is_a_value(engine: DuckDbEngine) -> None:
    loaded = supplied_template(
        "SELECT p.region, p.region = @region AS same FROM peaks AS p ORDER BY 1",
        "region:STRING same:BOOL",
        parameter("region:STRING"),
    )
    brought = [{**peaks()[0], "region": text} for text in INJECTIONS]
    answer = await run(engine, loaded, document(PEAKS.columns, brought), arguments={"region": INJECTIONS[1]})
    assert answer == [[text, text == INJECTIONS[1]] for text in sorted(INJECTIONS)]
    assert len(engine._calls.texts) == 1
    text = engine._calls.texts.text(engine._cursors.take(), loaded, govern(loaded, authority()).shape)
    assert "DROP" not in text


async def test_the_text_does_not_depend_on_what_is_supplied(engine: DuckDbEngine) -> None:
    loaded = supplied_template(JOIN, JOINED)
    for size in (0, 1, 40):
        await run(engine, loaded, document(PEAKS.columns, peaks(size=size)[:size]))
    assert len(engine._calls.texts) == 1


async def test_an_order_of_columns_unlike_the_alphabet_is_no_matter(engine: DuckDbEngine) -> None:
    relation = SuppliedRelation("peaks", results("z:STRING a:STRING m:INT64"))
    loaded = supplied_template("SELECT p.a, p.z FROM peaks AS p ORDER BY 1", "a:STRING z:STRING", supplied=relation)
    assert await run(engine, loaded, document(relation.columns, [{"z": "last", "a": "first", "m": 1}])) == [
        ["first", "last"]
    ]


BROKEN = {
    "another column": lambda body: body["schema"].__setitem__(0, {"name": "id", "type": "INT64", "mode": "NULLABLE"}),
    "another mode": lambda body: body["schema"][0].update(mode="REQUIRED"),
    "a missing column": lambda body: (body["schema"].pop(), [row.pop() for row in body["rows"]]),
    "a short row": lambda body: body["rows"][0].pop(),
    "a row that is an object": lambda body: body["rows"].__setitem__(0, {}),
    "a wrong count": lambda body: body.update(row_count=99),
    "a count that is true": lambda body: (body["rows"].__delitem__(slice(1, None)), body.update(row_count=True)),
    "rows that are cut short": lambda body: body.update(truncated=True),
    "one member more": lambda body: body.update(more=1),
    "rows that are none": lambda body: body.update(rows=None),
    "a number as text": lambda body: body["rows"][0].__setitem__(0, "7"),
    "a date that is none": lambda body: body["rows"][0].__setitem__(4, "2024-02-30"),
    "a decimal of ten places": lambda body: body["rows"][0].__setitem__(3, "0.0000000001"),
    "a value of a column that is not read": lambda body: body["rows"][0].__setitem__(6, "yes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_rows_that_do_not_fit_the_declaration_are_an_invalid_result(engine: DuckDbEngine, name: str) -> None:
    whole = document(PEAKS.columns, peaks())
    body = json.loads(whole.body)
    BROKEN[name](body)
    count = len(body["rows"] or [])
    broken = replace(whole, body=json.dumps(body).encode(), row_count=count)
    assert await refused(engine, supplied_template(JOIN, JOINED), broken) is Reason.RESULT_INVALID


async def test_bytes_that_are_no_strict_json_are_an_invalid_result(engine: DuckDbEngine) -> None:
    whole = document(PEAKS.columns, [])
    for body in (b"", b"{", whole.body[:-1] + b',"rows":[]}', whole.body.replace(b"[]", b"[NaN]"), b"\xff" * 9):
        broken = replace(whole, body=body)
        assert await refused(engine, supplied_template(JOIN, JOINED), broken) is Reason.RESULT_INVALID


async def test_a_float_that_is_not_finite_is_refused_where_it_is_read(engine: DuckDbEngine) -> None:
    """DuckDB compares and sorts NaN unlike GoogleSQL, and an infinity in a result counts as an overflow."""
    for value in (float("nan"), float("inf"), float("-inf")):
        supplied = document(PEAKS.columns, [{**peaks()[0], "area": value}])
        assert await refused(engine, supplied_template(JOIN, JOINED), supplied) is Reason.RESULT_INVALID
        unread = supplied_template("SELECT COUNT(p.order_id) AS n FROM peaks AS p", "n:INT64")
        assert await run(engine, unread, supplied)


async def test_supplied_rows_and_bytes_are_bounded(engine: DuckDbEngine) -> None:
    loaded = supplied_template("SELECT COUNT(*) AS n FROM peaks", "n:INT64")
    relation = SuppliedRelation("peaks", results("s:STRING"))
    wide = supplied_template("SELECT COUNT(*) AS n FROM peaks", "n:INT64", supplied=relation)
    most = supplied_module.MAX_SUPPLIED_ROWS
    one = peaks()[0]
    assert await run(engine, loaded, document(PEAKS.columns, [one] * most)) == [[most]]
    assert await refused(engine, loaded, document(PEAKS.columns, [one] * (most + 1))) is Reason.RESULT_TOO_LARGE
    half = "x" * (supplied_module.MAX_SUPPLIED_BYTES // 2)
    assert await run(engine, wide, document(relation.columns, [{"s": half}])) == [[1]]
    assert await refused(engine, wide, document(relation.columns, [{"s": half}] * 2)) is Reason.RESULT_TOO_LARGE


async def test_a_fault_of_the_engine_tells_nothing_of_a_supplied_value(engine: DuckDbEngine) -> None:
    loaded = supplied_template("SELECT MAX(DIV(1, p.order_id)) AS x FROM peaks AS p WHERE p.region = 'r0'", "x:INT64")
    supplied = document(PEAKS.columns, [{**peaks()[0], "region": "r0", "order_id": 0}])
    with pytest.raises(NotGranted) as stopped:
        await run(engine, loaded, supplied)
    assert (stopped.value.reason, stopped.value.message) == (Reason.EXECUTION_FAILED, "the query failed")
    broken = replace(supplied, body=supplied.body.replace(b'"r0"', b"7731"))
    with pytest.raises(NotGranted) as stopped:
        await run(engine, loaded, broken)
    assert "7731" not in stopped.value.message


async def test_every_type_is_read_and_compared_as_it_was_sent(engine: DuckDbEngine) -> None:
    declared = "i:INT64 n:NUMERIC f:FLOAT64 b:BOOL d:DATE dt:DATETIME t:TIME ts:TIMESTAMP s:STRING y:BYTES"
    relation = SuppliedRelation("peaks", results(declared))
    names = [column.name for column in relation.columns]
    loaded = supplied_template(
        f"SELECT {', '.join(f'p.{name}' for name in names)} FROM peaks AS p WHERE p.ts > TIMESTAMP '2024-01-01 00:00:00+00:00' AND p.i > 9007199254740992 ORDER BY 1",
        declared,
        supplied=relation,
    )
    row: dict[str, Any] = {
        "i": 9007199254740993,
        "n": Decimal("12345678901234567890123456789.123456789"),
        "f": -0.0,
        "b": True,
        "d": dt.date(1, 1, 1),
        "dt": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        "t": dt.time(23, 59, 59, 999999),
        "ts": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
        "s": "é\n'\"\\",
        "y": b"\x00\xff",
    }
    supplied = document(relation.columns, [row])
    assert await run(engine, loaded, supplied) == json.loads(supplied.body)["rows"]


def test_a_column_that_is_declared_and_not_read_is_not_bound() -> None:
    columns: tuple[ResultColumn, ...] = (*PEAKS.columns, *results("more:BYTES"))
    loaded = supplied_template(JOIN, JOINED, supplied=SuppliedRelation("peaks", columns))
    assert supplied_module.bound_fields(loaded) == tuple(
        (column.name, declared_type(column)) for column in PEAKS.columns if column.name in ("order_id", "area")
    )
    assert "more" not in to_duckdb(rewrite(loaded, govern(loaded, authority()).shape))[0]
