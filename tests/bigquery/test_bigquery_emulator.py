"""The engine against an emulator: the same bytes as DuckDB's, for shipped templates, rules and values of every type."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.cloud import bigquery

from contract.schema import Parameter, ResultColumn
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import CapabilityManifest, DatasetManifest
from queries.bigquery_access import Access
from queries.bigquery_engine import BigQueryEngine
from queries.bigquery_read import blocks, open_stream
from queries.bigquery_tables import describe_tables, state_of
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.encode import ResultEncoder
from queries.engine import Engine
from queries.errors import TemplateError
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.bigquery import emulated
from tests.bigquery.bigquery_world import AS_OF
from tests.bigquery.vectors import Vector, vectors
from tests.queries.oracle import AUTHORITIES
from tests.queries.supplied_world import PEAKS, document, peaks, supplied_template
from tests.queries.world import DATASET, MASK_KEY, TABLES, parameter, rows, template, write

pytestmark = pytest.mark.bigquery
SHOP = tuple(emulated.in_bigquery(table, "shop_data") for table in TABLES)
SHIPPED = [
    (folder, manifest, capability)
    for folder, manifest in emulated.manifests()
    for capability in manifest.capabilities
    if capability.template
]
CALLS: dict[str, list[dict[str, Any]]] = {
    "query": [{"query": "mab"}, {"query": "protein a"}, {"query": "%"}],
    "metric": [],
    "batch_a": [{"batch_a": "B001", "batch_b": "B002"}, {"batch_a": "B003", "batch_b": "B999"}],
    "batch_id": [{"batch_id": "B001"}, {"batch_id": "B017"}],
}


@pytest.fixture(scope="module")
def asked() -> bigquery.Client:
    return emulated.client()


@pytest.fixture(scope="module")
def shop(asked: bigquery.Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small dataset in both places."""
    folder = write(tmp_path_factory.mktemp("shop"), rows())
    for table, stored in zip(TABLES, SHOP, strict=True):
        emulated.fill(asked, stored, pq.read_table(folder / str(table.file)))
    return folder


@pytest.fixture
async def stored(shop: Path) -> AsyncIterator[BigQueryEngine]:
    engine = emulated.engine(DATASET)
    yield engine
    await engine.close()


@pytest.fixture
async def embedded(shop: Path) -> AsyncIterator[DuckDbEngine]:
    engine = DuckDbEngine.open(DATASET, "1.0.0", shop, TABLES, scratch=shop / "scratch", mask_key=MASK_KEY)
    yield engine
    await engine.close()


async def body(engine: Engine, loaded: Template, arguments: dict[str, Any] | None = None, **more: Any) -> str:
    supplied = more.pop("supplied", None)
    authority = make_authority(dataset=more.pop("dataset", DATASET), capability="c", **more)
    found, _ = await engine.run(
        authority,
        loaded,
        bind(loaded, arguments or {}),
        max_rows=10_000,
        max_bytes=10**7,
        as_of=AS_OF,
        supplied=supplied,
    )
    return found.body.decode()


def arguments_of(capability: CapabilityManifest) -> list[dict[str, Any]]:
    first = capability.parameters[0].name if capability.parameters else ""
    values = capability.parameters[0].values if capability.parameters else ()
    return [{first: value} for value in values] or CALLS.get(first, [{}])


@pytest.mark.parametrize(("folder", "manifest", "capability"), SHIPPED, ids=lambda item: getattr(item, "name", ""))
async def test_a_shipped_template_gives_duckdbs_bytes(
    asked: bigquery.Client,
    tmp_path: Path,
    folder: Path,
    manifest: DatasetManifest,
    capability: CapabilityManifest,
) -> None:
    place = manifest.dataset.replace("-", "_")
    tables = tuple(emulated.in_bigquery(table, place) for table in manifest.tables)
    for table, there in zip(manifest.tables, tables, strict=True):
        emulated.fill(asked, there, pq.read_table(folder / str(table.file)))
    there, here = (emulated.loaded(folder, manifest, capability, held) for held in (tables, manifest.tables))
    stored = emulated.engine(manifest.dataset)
    embedded = DuckDbEngine.open(
        manifest.dataset, "1.0.0", folder, manifest.tables, scratch=tmp_path, mask_key=MASK_KEY
    )
    scopes = scopes_of(here, manifest)
    try:
        await stored.check(there)
        for arguments in arguments_of(capability):
            for scope in scopes:
                more = {"dataset": manifest.dataset, **scope}
                found = await body(stored, there, arguments, **more), await body(embedded, here, arguments, **more)
                assert found[0] == found[1] or differs_in_rounding(manifest, capability, *found)
    finally:
        await stored.close()
        await embedded.close()


def differs_in_rounding(manifest: DatasetManifest, capability: CapabilityManifest, there: str, here: str) -> bool:
    """Whether it is the last digit of rounded means of FLOAT64, which the emulator rounds otherwise than GoogleSQL."""
    if (manifest.dataset, capability.name) != ("clinical-private", "aggregate"):
        return False
    one, other = json.loads(there), json.loads(here)
    cells = [zip(a, b, strict=True) for a, b in zip(one.pop("rows"), other.pop("rows"), strict=True)]
    return one == other and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) < 0.0011)
        for row in cells
        for a, b in row
    )


def scopes_of(loaded: Template, manifest: DatasetManifest) -> list[dict[str, Any]]:
    """No rule; a row rule on each attribute's columns together; a mask on each text column that is read."""
    attributes: dict[str, dict[str, Any]] = {}
    masks = {}
    for table in manifest.tables:
        if table.name not in loaded.tables_read:
            continue
        for column in table.columns:
            name = f"{table.name}.{column.name}"
            if column.attribute is not None:
                attributes.setdefault(column.attribute, {})[name] = {
                    "one_of": ["Basel", "Cork", "BSL", "CRK", "S01", "S02"]
                }
            if name in loaded.columns_read and column.type == "STRING":
                masks[name] = "hash" if len(masks) % 2 else "truncate"
    return [{}, *({"rows": held} for held in attributes.values()), {"masks": masks}]


QUERIES = [
    (
        "SELECT o.id AS id, o.region AS region, o.note AS note, o.amount AS amount, o.day AS day, o.at AS at, o.paid AS paid, "
        "o.score AS score, c.name AS name, c.id AS customer, l.qty AS qty, l.sku AS sku FROM orders AS o "
        "LEFT JOIN customers AS c ON c.id = o.customer LEFT JOIN lines AS l ON l.order_id = o.id ORDER BY id, l.sku, l.qty",
        "id:INT64 region:STRING note:STRING amount:NUMERIC day:DATE at:TIMESTAMP paid:BOOL score:FLOAT64 name:STRING "
        "customer:INT64 qty:INT64 sku:STRING",
    ),
    (
        "SELECT o.region AS region, COUNT(*) AS n, SUM(o.amount) AS total, MIN(c.name) AS name, MAX(o.day) AS day "
        "FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer GROUP BY o.region ORDER BY region",
        "region:STRING n:INT64 total:NUMERIC name:STRING day:DATE",
    ),
    (
        "WITH big AS (SELECT l.order_id AS order_id, SUM(l.qty) AS qty FROM lines AS l GROUP BY l.order_id) "
        "SELECT o.id AS id, o.note AS note, o.amount AS amount, o.at AS at, o.score AS score, o.paid AS paid, b.qty AS qty "
        "FROM orders AS o JOIN big AS b ON b.order_id = o.id WHERE b.qty > 3 ORDER BY id",
        "id:INT64 note:STRING amount:NUMERIC at:TIMESTAMP score:FLOAT64 paid:BOOL qty:INT64",
    ),
    (
        "SELECT c.id AS id, c.name AS name, c.region AS region, ROW_NUMBER() OVER (PARTITION BY c.region ORDER BY c.id) AS place "
        "FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id) ORDER BY id",
        "id:INT64 name:STRING region:STRING place:INT64",
    ),
]


@pytest.mark.parametrize("name", AUTHORITIES)
async def test_rows_and_masks_are_applied_alike(stored: BigQueryEngine, embedded: DuckDbEngine, name: str) -> None:
    authority = AUTHORITIES[name]
    # The emulator makes a TIMESTAMP of a truncated DATE.
    authority = {**authority, "masks": {k: v for k, v in authority.get("masks", {}).items() if k != "orders.day"}}
    applied = 0
    for sql, declared in QUERIES:
        there, here = template(sql, declared, tables=SHOP), template(sql, declared)
        try:
            wanted = await body(embedded, here, **authority)
        except NotGranted:  # it constrains what the query does not read
            continue
        applied += 1
        assert await body(stored, there, **authority) == wanted
    assert applied


async def test_arguments_of_every_type_arrive_as_they_were_bound(
    stored: BigQueryEngine, embedded: DuckDbEngine
) -> None:
    names = {
        "i": "INT64", "f": "FLOAT64", "n": "NUMERIC", "b": "BOOL", "d": "DATE", "t": "TIMESTAMP", "s": "STRING",
        "dt": "DATETIME", "tm": "TIME",
    }  # fmt: skip
    sql = "SELECT " + ", ".join(f"@{name} AS {name}" for name in names) + ", 'a' IN UNNEST(@r) AS r"
    declared = " ".join(f"{name}:{kind}" for name, kind in names.items()) + " r:BOOL"
    given = [parameter(f"{name}:{kind}", nullable=True) for name, kind in names.items()]
    given.append(parameter("r:STRING[]", nullable=True))
    there, here = template(sql, declared, *given, tables=SHOP), template(sql, declared, *given)
    await stored.check(there)
    full = {
        "i": "-9223372036854775808", "f": 0.1, "n": "12345678901234567890123456789.123456789", "b": True, "d": "0001-01-01",
        "t": "2024-10-27T02:30:00.000001+02:00", "s": "é'\"\\;--", "dt": "0999-12-31T23:59:59.5", "tm": "23:59:59.999999",
        "r": ["b", "a"],
    }  # fmt: skip
    for arguments in (full, dict.fromkeys(full), {**full, "r": []}):
        assert await body(stored, there, arguments) == await body(embedded, here, arguments)


async def test_structs_arrive_and_come_back_nested(stored: BigQueryEngine, embedded: DuckDbEngine) -> None:
    pair = [{"name": "a", "type": "INT64"}, {"name": "b", "type": "NUMERIC"}, {"name": "c", "type": "DATE"}]
    given = Parameter.model_validate(
        {"name": "p", "type": "STRUCT", "fields": pair, "nullable": True, "description": "three values"}
    )
    listed = parameter("r:STRING[]", nullable=True, ordered=True)
    declared = (
        ResultColumn.model_validate({"name": "s", "type": "STRUCT", "fields": pair}),
        ResultColumn.model_validate({"name": "r", "type": "STRING", "mode": "REPEATED"}),
    )
    sql = "SELECT STRUCT(@p.a AS a, @p.b AS b, @p.c AS c) AS s, @r AS r"
    there, here = (
        load_template(
            sql, name="t.sql", dataset=DATASET, tables=tables, parameters=(given, listed), results=declared,
            ceiling=Sensitivity.RESTRICTED,
        )
        for tables in (SHOP, TABLES)
    )  # fmt: skip
    full = {"a": "9007199254740993", "b": "12345678901234567890123456789.123456789", "c": "2024-02-29"}
    # The emulator has no type for a field or an element that is not there, so those are cases of the API's form alone.
    for arguments in ({"p": full, "r": ["b", "a", "b"]}, {"p": full, "r": [""]}):
        assert await body(stored, there, arguments) == await body(embedded, here, arguments)


async def test_supplied_rows_arrive_as_they_were_sent(stored: BigQueryEngine, embedded: DuckDbEngine) -> None:
    sql = (
        "SELECT p.order_id AS order_id, p.region AS region, p.area AS area, p.price AS price, p.day AS day, p.at AS at, "
        "p.good AS good, o.note AS note FROM peaks AS p LEFT JOIN orders AS o ON o.id = p.order_id "
        "ORDER BY p.order_id, p.region, p.area"
    )
    declared = "order_id:INT64 region:STRING area:FLOAT64 price:NUMERIC day:DATE at:TIMESTAMP good:BOOL note:STRING"
    there, here = supplied_template(sql, declared, tables=SHOP), supplied_template(sql, declared)
    scope = {"rows": {"orders.region": {"one_of": ["EU"]}}}
    # The emulator has no type for a field that is NULL in every row, and none for an array without elements.
    filled = {
        "order_id": 2, "region": "EU", "area": 0.1, "price": Decimal("12345678901234567890.123456789"),
        "day": dt.date(2024, 2, 29), "at": dt.datetime(2024, 3, 31, 1, 0, 0, 1, tzinfo=dt.UTC), "good": True,
    }  # fmt: skip
    sent = document(PEAKS.columns, [filled, *peaks()])
    wanted = await body(embedded, here, supplied=sent, **scope)
    assert await body(stored, there, supplied=sent, **scope) == wanted


@pytest.mark.parametrize("vector", [v for v in vectors() if v.emulated], ids=lambda vector: vector.name)
async def test_a_stored_value_comes_back_as_the_committed_bytes(asked: bigquery.Client, vector: Vector) -> None:
    where = {"bigquery": f"{emulated.PROJECT}.vectors.{vector.table_name}"}
    emulated.fill(asked, vector.table(**where), vector.arrow())
    engine = emulated.engine(DATASET)
    try:
        found = await body(engine, vector.template(**where))
    finally:
        await engine.close()
    assert found == vector.body


async def test_a_failing_query_has_fixed_words(stored: BigQueryEngine, caplog: pytest.LogCaptureFixture) -> None:
    gone = (emulated.in_bigquery(TABLES[0].model_copy(update={"name": "gone"}), "shop_data"),)
    missing = template("SELECT COUNT(*) AS n FROM gone", "n:INT64", tables=gone)
    dividing = template("SELECT MAX(o.id / (o.id - o.id)) AS x FROM orders AS o", "x:FLOAT64", tables=SHOP)
    for broken in (missing, dividing):
        with pytest.raises(NotGranted) as failed:
            await body(stored, broken)
        assert (failed.value.reason, failed.value.message) == (Reason.EXECUTION_FAILED, "the query failed")
    assert not any("gone" in record.getMessage() for record in caplog.records if record.name.startswith("queries"))
    with pytest.raises(TemplateError, match="BigQuery does not accept the query"):
        await stored.check(missing)


async def test_a_template_is_tried_and_other_columns_are_seen(stored: BigQueryEngine) -> None:
    for sql, declared in QUERIES:
        await stored.check(template(sql, declared, tables=SHOP))


HEAVY = template(
    "SELECT COUNT(*) AS n FROM lines AS a CROSS JOIN lines AS b CROSS JOIN lines AS c CROSS JOIN orders AS d "
    "WHERE a.price + b.price + c.price > d.amount",
    "n:INT64",
    tables=SHOP,
)


async def test_a_job_of_a_caller_who_left_is_done_at_the_emulator(
    asked: bigquery.Client, stored: BigQueryEngine
) -> None:
    """It runs a job inside the request that makes it, so a job that is still running is shown by the scripted service."""
    task = asyncio.create_task(body(stored, HEAVY))
    while not any(job.runs for job in stored._jobs):
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    (job,) = stored._jobs
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    told = time.monotonic()
    found = await asyncio.to_thread(asked.get_job, job.id)
    assert found.state == "DONE"
    print(f"the job is DONE {time.monotonic() - told:.3f} s after its caller was told")


async def test_a_job_that_takes_too_long_is_given_up(shop: Path) -> None:
    engine = emulated.engine(DATASET, timeout=0.2)
    with pytest.raises(NotGranted) as refused:
        await body(engine, HEAVY)
    assert refused.value.reason is Reason.EXECUTION_TIMEOUT
    await engine.close()


async def test_a_stored_table_is_read_as_an_arrow_stream_alike(asked: bigquery.Client) -> None:
    """What the emulator keeps of a query's own result is no table, so a stored one is read."""
    reader = Access(emulated.options()).reader(None)
    assert reader is not None
    for vector in vectors():
        if not (vector.rest and vector.emulated):
            continue
        where = f"{emulated.PROJECT}.streams.{vector.table_name}"
        emulated.fill(asked, vector.table(bigquery=where), vector.arrow())
        opened = open_stream(reader, bigquery.TableReference.from_string(where), project=emulated.PROJECT, timeout=30)
        assert opened is not None
        encoder = ResultEncoder(vector.results, max_rows=100, max_bytes=10**6)
        for batch in blocks(*opened):
            encoder.check_schema(batch.schema)
            encoder.add(batch)
        assert encoder.finish(AS_OF).body.decode() == vector.body, vector.name


def test_tables_are_described_and_their_state_changes_with_their_rows(asked: bigquery.Client, shop: Path) -> None:
    names = [str(table.bigquery) for table in SHOP]
    described = describe_tables(emulated.options(), names)
    assert [table.name for table in described] == names
    for table, found in zip(TABLES, described, strict=True):
        assert [(c.name, c.type, c.mode) for c in found.columns] == [(c.name, c.type, c.mode) for c in table.columns]
    before = state_of(described)
    assert state_of(tuple(reversed(described))) == before
    lines = pq.read_table(shop / str(TABLES[1].file))
    for held in (lines.slice(1), lines):
        emulated.fill(asked, SHOP[1], held)
        after = state_of(describe_tables(emulated.options(), names))
        assert after.revision != before.revision
        before = after
