"""The embedded engine: results, bounds, interruption, and what it cannot be made to do."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from queries.bind import bind
from queries.duckdb_connection import cores
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_file import database_file
from queries.errors import DataError
from queries.template import Template
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, TABLES, parameter, rows, shop, table, template, write

AS_OF = "2026-08-31T22:00:00Z"
FOREVER = "SELECT COUNT(*) AS n FROM lines AS a, lines AS b, lines AS c, lines AS d WHERE MOD(a.qty + b.qty * 2 + c.qty * 3 + d.qty * 5, 7) = 1"
INJECTIONS = [
    "' OR ''='",
    "x'; DROP TABLE orders; --",
    "\\",
    "%",
    "_",
    "$__s0",
    "@x",
    '"',
    "`",
    "\x1a",
    "𝕏",
    "; SELECT 1",
]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[DuckDbEngine]:
    made = opened(shop(tmp_path))
    yield made
    await made.close()


def opened(folder: Path, **more: Any) -> DuckDbEngine:
    return DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=folder / "scratch", mask_key=MASK_KEY, **more)


async def run(
    engine: DuckDbEngine, loaded: Template, arguments: dict[str, Any] | None = None, **more: Any
) -> list[Any]:
    limits = {"max_rows": more.pop("max_rows", 10_000), "max_bytes": more.pop("max_bytes", 10**7)}
    authority = make_authority(dataset=DATASET, capability="c", **more)
    document, _ = await run_whole(engine, authority, loaded, bind(loaded, arguments or {}), as_of=AS_OF, **limits)
    rows_of: list[Any] = json.loads(document.body)["rows"]
    return rows_of


async def test_a_run_returns_the_document_and_its_execution(engine: DuckDbEngine) -> None:
    loaded = template("SELECT id, region FROM orders ORDER BY id LIMIT 2", "id:INT64 region:STRING")
    await engine.check(loaded)
    authority = make_authority(dataset=DATASET, capability="c")
    document, execution = await run_whole(
        engine, authority, loaded, bind(loaded, {}), max_rows=2, max_bytes=1000, as_of=AS_OF
    )
    assert json.loads(document.body)["as_of"] == AS_OF
    assert document.row_count == 2
    assert (execution.engine, execution.tool_origin, execution.job_id) == ("duckdb", "LOCAL", None)
    assert execution.started <= execution.ended


async def test_arguments_of_every_type_reach_the_query(engine: DuckDbEngine, tmp_path: Path) -> None:
    names = {"i": "INT64", "f": "FLOAT64", "n": "NUMERIC", "b": "BOOL", "d": "DATE", "t": "TIMESTAMP", "s": "STRING"}
    sql = "SELECT " + ", ".join(f"@{name} AS {name}" for name in names) + ", 'a' IN UNNEST(@r) AS r"
    loaded = template(
        sql,
        " ".join(f"{name}:{kind}" for name, kind in names.items()) + " r:BOOL",
        *(parameter(f"{name}:{kind}") for name, kind in names.items()),
        parameter("r:STRING[]"),
    )
    await engine.check(loaded)
    arguments = {
        "i": "9007199254740993", "f": 0.1, "n": "12345678901234567890123456789.123456789", "b": True, "d": "2024-02-29",
        "t": "2024-02-29T12:00:00+05:30", "s": "é", "r": ["b", "a"],
    }  # fmt: skip
    assert await run(engine, loaded, arguments) == [
        ["9007199254740993", 0.1, arguments["n"], True, "2024-02-29", "2024-02-29T06:30:00.000000Z", "é", True]
    ]


async def test_arguments_that_look_like_sql_are_values(engine: DuckDbEngine) -> None:
    loaded = template(
        "SELECT COUNT(*) AS n FROM orders WHERE note = @x OR STRPOS(note, @x) > 0", "n:INT64", parameter("x:STRING")
    )
    for text in INJECTIONS:
        expected = sum(1 for row in rows()["orders"] if row["note"] is not None and text in row["note"])
        assert await run(engine, loaded, {"x": text}) == [[expected]]
    assert len(engine._calls.texts) == 1


async def test_ties_of_the_written_order_come_in_one_order(engine: DuckDbEngine) -> None:
    loaded = template("SELECT region, id FROM orders ORDER BY region LIMIT 20", "region:STRING id:INT64")
    answers = {json.dumps(await run(engine, loaded)) for _ in range(10)}
    assert len(answers) == 1


async def test_more_rows_or_bytes_than_allowed_return_nothing(engine: DuckDbEngine) -> None:
    loaded = template("SELECT a.order_id FROM lines AS a, lines AS b ORDER BY 1", "order_id:INT64")
    for limit in ({"max_rows": 100}, {"max_bytes": 1000}):
        with pytest.raises(NotGranted) as refused:
            await run(engine, loaded, **limit)
        assert refused.value.reason is Reason.RESULT_TOO_LARGE


async def test_a_query_that_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    engine = opened(shop(tmp_path), timeout=0.3)
    started = time.monotonic()
    with pytest.raises(NotGranted) as refused:
        await run(engine, template(FOREVER, "n:INT64"))
    assert refused.value.reason is Reason.EXECUTION_TIMEOUT
    assert time.monotonic() - started < 5
    assert await run(engine, template("SELECT 1 AS x", "x:INT64")) == [[1]]
    await engine.close()


async def test_cancelling_the_caller_stops_its_query_and_no_other(engine: DuckDbEngine) -> None:
    task = asyncio.create_task(run(engine, template(FOREVER, "n:INT64")))
    await asyncio.sleep(0.2)
    other = asyncio.create_task(run(engine, template("SELECT COUNT(*) AS n FROM lines AS a, lines AS b", "n:INT64")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await other == [[180 * 180]]
    assert not engine._threads.jobs


async def test_closing_stops_what_runs(tmp_path: Path) -> None:
    engine = opened(shop(tmp_path))
    task = asyncio.create_task(run(engine, template(FOREVER, "n:INT64")))
    await asyncio.sleep(0.2)
    await engine.close()
    with pytest.raises(NotGranted):
        await task


@pytest.mark.parametrize(
    "expression",
    ["1 / (id - id)", "DIV(1, id - id)", "MOD(1, id - id)", "amount / (amount - amount)", "SQRT(CAST(-1 AS FLOAT64) - id)",
     "LN(CAST(id - id AS FLOAT64))", "ROUND(EXP(1000.0 + id))", "1e308 * 10 * id", "9223372036854775807 + id",
     "IF(1e308 * 10 * id > 0, 1.0, 2.0)", "1.0 / (1e308 * 10 * id)", "CAST(DATE_ADD(DATE '9999-12-31', INTERVAL id DAY) AS STRING)",
     "SUM(9223372036854775807) OVER ()", "SUBSTR(region, 1, -id)"],
)  # fmt: skip
async def test_an_error_of_googlesql_is_an_error_with_a_fixed_text(
    engine: DuckDbEngine, expression: str, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = {
        "DIV": "INT64",
        "MOD": "INT64",
        "9": "INT64",
        "amount": "NUMERIC",
        "CAST(DATE": "STRING",
        "SUM": "INT64",
        "SUBSTR": "STRING",
    }
    kind = next((kind for start, kind in kinds.items() if expression.startswith(start)), "FLOAT64")
    loaded = template(
        f"SELECT {expression} AS x FROM orders WHERE amount > 0 AND region = 'EU' ORDER BY x", f"x:{kind}"
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(NotGranted) as failed:
        await run(engine, loaded)
    assert failed.value.reason is Reason.EXECUTION_FAILED
    assert failed.value.message == "the query failed"
    assert failed.value.__cause__ is None
    assert all("9223372036854775807" not in record.getMessage() for record in caplog.records)


async def test_a_hidden_row_cannot_make_a_query_fail_or_be_seen_in_an_error(tmp_path: Path) -> None:
    data = rows()
    data["orders"].append({**data["orders"][0], "id": 0, "region": "SECRET"})
    engine = opened(write(tmp_path, data))
    loaded = template("SELECT MAX(1 / id) AS x FROM orders", "x:FLOAT64")
    assert await run(engine, loaded, rows={"orders.region": {"one_of": ["EU"]}})
    with pytest.raises(NotGranted):
        await run(engine, loaded)
    await engine.close()


async def test_nothing_but_generated_text_could_reach_a_file_or_a_setting(engine: DuckDbEngine, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with engine._cursors.take() as cursor:
        for sql in (
            f"SELECT * FROM read_csv('{secret}')",
            f"SELECT * FROM '{secret}'",
            f"SELECT * FROM read_text('{secret}')",
            f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
            f"ATTACH '{tmp_path / 'other.duckdb'}'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access=true",
            "SET memory_limit='100GB'",
            "SET lock_configuration=false",
            'INSERT INTO "__data"."orders" (id) VALUES (1)',
            'DROP TABLE "__data"."orders"',
            "CREATE TABLE main.x (a INT)",
            "SELECT * FROM orders",
        ):
            with pytest.raises(duckdb.Error):
                cursor.execute(sql)
    leaked = pa.table({"a": [1]})
    with pytest.raises(duckdb.Error):
        engine._cursors.take().execute("SELECT * FROM leaked")
    assert leaked.num_rows == 1


async def test_every_setting_holds_for_a_cursor_as_for_its_connection(engine: DuckDbEngine) -> None:
    wanted = {
        "TimeZone": "UTC",
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "temp_directory": "",
        "max_expression_depth": 250,
        "ieee_floating_point_ops": False,
        "max_execution_time": 31_000,
        "enable_external_access": False,
        "lock_configuration": True,
        "threads": cores(),
    }
    with engine._cursors.one() as cursor:
        found = {name: cursor.execute(f"SELECT current_setting('{name}')").fetchall()[0][0] for name in wanted}
        assert found == wanted
        assert cursor.execute("SELECT current_setting('memory_limit')").fetchall() == [("488.2 MiB",)]


async def test_an_authority_for_another_version_is_indeterminate(tmp_path: Path) -> None:
    engine = opened(shop(tmp_path), revision="r1")
    loaded = template("SELECT 1 AS x", "x:INT64")
    for more in ({"dataset_version": "2.0.0"}, {"revision": "r2"}):
        with pytest.raises(NotGranted) as refused:
            await run(engine, loaded, **more)
        assert refused.value.reason is Reason.UNKNOWN_DATASET_REVISION
    assert await run(engine, loaded) == [[1]]
    await engine.close()


async def test_the_engine_finds_at_load_what_only_it_can_find(engine: DuckDbEngine) -> None:
    loaded = template("SELECT region, id FROM orders GROUP BY region ORDER BY 1", "region:STRING id:INT64")
    with pytest.raises(DatasetAgentError, match=r"shop/templates/test\.sql: DuckDB does not accept"):
        await engine.check(loaded)


async def test_a_file_is_built_once_and_shared(tmp_path: Path) -> None:
    write(tmp_path, rows())
    first, second = opened(tmp_path), opened(tmp_path)
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    loaded = template("SELECT COUNT(*) AS n FROM orders", "n:INT64")
    assert await run(first, loaded) == await run(second, loaded)
    await first.close()
    assert await run(second, loaded) == [[60]]
    await second.close()


def test_several_processes_build_one_file(tmp_path: Path) -> None:
    write(tmp_path, rows())
    with ProcessPoolExecutor(3) as pool:
        paths = list(pool.map(_build, [tmp_path] * 6))
    assert len(set(paths)) == 1
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == [paths[0].name]


def _build(folder: Path) -> Path:
    return database_file(DATASET, "1.0.0", "", folder, TABLES, folder / "scratch")


async def test_a_changed_file_or_revision_is_another_database(tmp_path: Path) -> None:
    write(tmp_path, rows())
    first = _build(tmp_path)
    write(tmp_path, rows(size=61))
    assert _build(tmp_path) != first
    assert database_file(DATASET, "1.0.0", "r2", tmp_path, TABLES, tmp_path / "scratch") != _build(tmp_path)


async def test_a_file_a_week_older_than_a_new_one_is_removed(tmp_path: Path) -> None:
    write(tmp_path, rows())
    old = _build(tmp_path)
    other = tmp_path / "scratch" / f"{DATASET}-more-{'0' * 32}.duckdb"
    other.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    write(tmp_path, rows(size=61))
    new = _build(tmp_path)
    assert set((tmp_path / "scratch").iterdir()) == {new, other}


async def test_a_null_list_holds_nothing_and_a_null_value_is_in_no_list(engine: DuckDbEngine) -> None:
    regions = parameter("r:STRING[]", nullable=True)
    inside = template("SELECT COUNT(*) AS n FROM orders WHERE region IN UNNEST(@r)", "n:INT64", regions)
    outside = template("SELECT COUNT(*) AS n FROM orders WHERE region NOT IN UNNEST(@r)", "n:INT64", regions)
    known = sum(1 for row in rows()["orders"] if row["region"] is not None)
    counts = [
        [(await run(engine, loaded, {"r": value}))[0][0] for loaded in (inside, outside)]
        for value in (None, [], ["EU"])
    ]
    assert counts[:2] == [[0, 60], [0, 60]]
    assert sum(counts[2]) == known


async def test_limit_takes_an_argument(engine: DuckDbEngine) -> None:
    loaded = template(
        "SELECT id FROM orders ORDER BY id LIMIT @n OFFSET @o",
        "id:INT64",
        parameter("n:INT64", minimum=0, maximum=1000),
        parameter("o:INT64", default=1, minimum=0, maximum=1000),
    )
    await engine.check(loaded)
    assert await run(engine, loaded, {"n": 2}) == [[2], [3]]
    with pytest.raises(NotGranted):
        await run(engine, loaded, {"n": -1})


async def test_an_alias_with_the_name_of_a_common_table_is_still_the_base_table(engine: DuckDbEngine) -> None:
    sql = (
        "WITH z AS (SELECT id FROM customers) SELECT z.id FROM orders AS z "
        "WHERE EXISTS (SELECT 1 FROM lines AS z WHERE z.qty > 7) ORDER BY z.id"
    )
    loaded = template(sql, "id:INT64")
    assert await run(engine, loaded, rows={"orders.id": {"max": 3}}) == [[1], [2], [3]]
    assert await run(engine, loaded, rows={"lines.qty": {"max": 3}}) == []


ONE = (table("t", "x:NUMERIC"),)


@pytest.mark.parametrize(
    ("declared", "array", "message"),
    [
        ("x:INT64", pa.array(["1"]), "declared INT64, the file holds string"),
        ("x:STRING", pa.array([1]), "declared STRING"),
        ("x:DATE", pa.array(["2024-01-01"]), "declared DATE"),
        ("x:TIMESTAMP", pa.array([0], type=pa.timestamp("us")), "declared TIMESTAMP"),
        ("x:DATETIME", pa.array([0], type=pa.timestamp("us", tz="UTC")), "declared DATETIME"),
        ("x:NUMERIC", pa.array([1.5]), "declared NUMERIC"),
        ("x:NUMERIC", pa.array([Decimal("0.0000000001")], type=pa.decimal128(38, 10)), "does not fit NUMERIC"),
        ("x:INT64", pa.array([2**63], type=pa.uint64()), "does not fit INT64"),
        ("x:FLOAT64", pa.array([float("nan")]), "holds NaN"),
        ("x:FLOAT64", pa.array([float("inf")]), "holds NaN or an infinity"),
        ("x:DATE", pa.array([4_000_000], type=pa.date32()), "beyond the years"),
        ("y:INT64", pa.array([1]), "not in the file"),
    ],
)
def test_data_that_does_not_fit_its_declaration_is_a_fault_that_names_the_column(
    tmp_path: Path, declared: str, array: Any, message: str
) -> None:
    tables = (table("t", declared),)
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"x": array}), tmp_path / "data/t.parquet")
    with pytest.raises(DataError, match=message):
        database_file("d", "1", "", tmp_path, tables, tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_file_outside_the_folder_or_absent_or_broken_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for file in ("../x.parquet", "gone.parquet", "/etc/passwd"):
        tables = (ONE[0].model_copy(update={"file": file}),)
        with pytest.raises(DataError):
            database_file("d", "1", "", tmp_path / "d", tables, tmp_path / "scratch")
    (tmp_path / "d/broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="cannot be read"):
        database_file(
            "d", "1", "", tmp_path / "d", (ONE[0].model_copy(update={"file": "broken.parquet"}),), tmp_path / "s"
        )


def test_narrower_types_of_a_file_widen_to_the_declared_ones(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    content = {
        "i": pa.array([1], type=pa.int16()),
        "n": pa.array([Decimal("1.5")], type=pa.decimal128(5, 2)),
        "f": pa.array([1.5], type=pa.float32()),
        "s": pa.array(["a"]).dictionary_encode(),
        "t": pa.array([1], type=pa.timestamp("s", tz="Europe/Berlin")),
    }
    pq.write_table(pa.table(content), tmp_path / "data/t.parquet")
    tables = (table("t", "i:INT64", "n:NUMERIC", "f:FLOAT64", "s:STRING", "t:TIMESTAMP"),)
    path = database_file("d", "1", "", tmp_path, tables, tmp_path / "scratch")
    with duckdb.connect(str(path), read_only=True) as connection:
        kinds = [str(kind) for kind in connection.sql('SELECT * FROM "__data"."t"').types]
    assert kinds == ["BIGINT", "DECIMAL(38,9)", "DOUBLE", "VARCHAR", "TIMESTAMP WITH TIME ZONE"]


def test_a_memory_limit_that_is_none_is_a_configuration_fault(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="memory limit"):
        opened(shop(tmp_path), memory_limit="1'; SET x='1")
