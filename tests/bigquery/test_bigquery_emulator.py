"""The engine against an emulator: the same bytes as DuckDB's, for shipped templates, rules and values of every type."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.cloud import bigquery

from contract.schema import Parameter, ResultColumn
from contract.scope import Sensitivity
from contract.verdict import NotGranted
from control_plane.manifest import CapabilityManifest, DatasetManifest
from queries.bigquery_engine import BigQueryEngine
from queries.duckdb_engine import DuckDbEngine
from queries.errors import TemplateError
from queries.template import Template, load_template
from tests.bigquery import emulated
from tests.bigquery.emulated import SHOP, body
from tests.queries.oracle import AUTHORITIES
from tests.queries.supplied_world import PEAKS, document, peaks, supplied_template
from tests.queries.world import DATASET, MASK_KEY, TABLES, parameter, template

pytestmark = pytest.mark.bigquery
SHIPPED = [
    (folder, manifest, capability)
    for folder, manifest in emulated.manifests()
    for capability in manifest.capabilities
    if capability.template
]
# The emulator writes a parameter anew wherever it stands, and DuckDB below it takes two for two values.
GROUPED_BY_A_PARAMETER = [case for case in SHIPPED if case[2].rollup is not None]
SHOWN = [case for case in SHIPPED if case[2].rollup is None]
CALLS: dict[str, list[dict[str, Any]]] = {
    "query": [{"query": "mab"}, {"query": "protein a"}, {"query": "%"}],
    "metric": [],
    "batch_a": [{"batch_a": "B001", "batch_b": "B002"}, {"batch_a": "B003", "batch_b": "B999"}],
    "batch_id": [{"batch_id": "B001"}, {"batch_id": "B017"}],
}


def arguments_of(capability: CapabilityManifest) -> list[dict[str, Any]]:
    first = capability.parameters[0].name if capability.parameters else ""
    values = capability.parameters[0].values if capability.parameters else ()
    return [{first: value} for value in values] or CALLS.get(first, [{}])


@pytest.mark.parametrize(
    ("folder", "manifest", "capability"), GROUPED_BY_A_PARAMETER, ids=lambda item: getattr(item, "name", "")
)
async def test_groups_made_by_a_parameter_are_what_the_emulator_cannot_show(
    asked: bigquery.Client, folder: Path, manifest: DatasetManifest, capability: CapabilityManifest
) -> None:
    tables = tuple(emulated.in_bigquery(table, manifest.dataset.replace("-", "_")) for table in manifest.tables)
    for table, there in zip(manifest.tables, tables, strict=True):
        emulated.fill(asked, there, pq.read_table(folder / str(table.file)))
    stored = emulated.engine(manifest.dataset)
    try:
        with pytest.raises(TemplateError, match="must appear in the GROUP BY clause"):
            await stored.check(emulated.loaded(folder, manifest, capability, tables))
    finally:
        await stored.close()


@pytest.mark.parametrize(("folder", "manifest", "capability"), SHOWN, ids=lambda item: getattr(item, "name", ""))
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
