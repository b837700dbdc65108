"""What governing costs: a governed miss beside the query that somebody would write by hand, and the steps before it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb

from benchmarks.chains import AGENTS, ISSUER, Chains
from benchmarks.report import Figure, Section, Side, machine
from contract.authority import Authority
from contract.principal import Principal
from contract.schema import Column, Parameter, ResultColumn, Table
from contract.scope import Mask, Obligations, Scope, Sensitivity, parse_rows
from contract.verdict import Decision, Reason
from control_plane.registry import load_registry
from dataset_agent.process import settle_memory
from queries.bind import bind
from queries.duckdb_call import Calls
from queries.duckdb_connection import connect, cores
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_file import database_file
from queries.duckdb_text import Texts
from queries.govern import govern
from queries.template import Template, load_template
from tests.queries.documents import document_of
from tests.queries.documents import run as run_whole

DATASET: Final = "bench"
AS_OF: Final = "2026-08-31T22:00:00Z"
ROWS: Final = 9_000_000
MEMORY: Final = "1GB"
SECRET: Final = bytes(range(32))
HAND, GOVERNED = "hand-written query", "governed miss"
HAND_MASKED, MASKED = "hand-written query, masked", "governed miss, masked"
BIND, COLD_SMALL, COLD_LARGE = "bind on a warm template", "cold text, small template", "cold text, large template"
_COLUMNS: Final = {
    "id": "INT64",
    "site": "STRING",
    "product": "STRING",
    "day": "DATE",
    "amount": "NUMERIC",
    "units": "INT64",
}
_TEMPLATE: Final = """
SELECT r.product AS product, DATE_TRUNC(r.day, MONTH) AS month, COUNT(*) AS readings, COUNT(r.units) AS counted,
  SUM(r.units) AS units, SUM(r.amount) AS amount
FROM readings AS r
WHERE r.day >= @since AND r.product <> @without
GROUP BY product, month
ORDER BY product, month
"""
_RESULTS: Final = {
    "product": "STRING",
    "month": "DATE",
    "readings": "INT64",
    "counted": "INT64",
    "units": "INT64",
    "amount": "NUMERIC",
}
_BY_HAND: Final = """
SELECT {product} AS product, CAST(DATE_TRUNC('month', r.day) AS DATE) AS month, COUNT(*) AS readings,
  COUNT(r.units) AS counted, CAST(SUM(r.units) AS BIGINT) AS units, SUM(r.amount) AS amount
FROM __data.readings AS r
WHERE r.day >= CAST($since AS DATE) AND {product} <> CAST($without AS VARCHAR)
  AND r.site IN (SELECT UNNEST(CAST($sites AS VARCHAR[]))) AND r.units <= CAST($most AS BIGINT)
GROUP BY 1, 2
ORDER BY 1, 2
"""
_SHORT: Final = "SUBSTR(r.product, 1, LEAST(4, LENGTH(r.product) // 2))"
_SITES: Final = ("site-01", "site-02", "site-03", "site-05", "site-08", "site-13")
_MOST: Final = 900
_ARGUMENTS: Final = {"since": "2021-06-01", "without": "product-3"}


@dataclass(frozen=True, slots=True)
class Work:
    """One side: what is timed, and how many times a call's turn."""

    name: str
    run: Callable[[], Awaitable[object]]
    often: int = 1


def measure(blocks: int = 7, calls: int = 8) -> Section:
    """Each side in interleaved ``blocks`` of ``calls``; the steps before a query are called more often.

    Times in milliseconds. The table has ``ROWS`` rows in a folder that is removed afterwards.
    """
    settle_memory()
    with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder:
        return asyncio.run(_measure(Path(folder), blocks, calls))


async def _measure(folder: Path, blocks: int, calls: int) -> Section:
    table = _build(folder)
    engine = DuckDbEngine.open(
        DATASET, "1.0.0", folder, (table,), scratch=folder / "scratch", memory_limit=MEMORY, mask_key=SECRET
    )
    (path,) = (folder / "scratch").glob("*.duckdb")
    by_hand = connect(path, MEMORY, 30.0, threads=cores())
    template, shipped = _template(table), _shipped(folder / "shipped")
    try:
        works = [*_queries(engine, by_hand, template), *_steps(by_hand, template, shipped)]
        times: dict[str, list[tuple[float, ...]]] = {work.name: [] for work in works}
        for block in range(blocks + 1):
            taken = await _turns(works, calls)
            if block:  # the first block warms every side
                for name, block_times in taken.items():
                    times[name].append(block_times)
    finally:
        shipped.cursor.close()
        by_hand.close()
        await engine.close()
    sides = {name: Side(name, tuple(held)) for name, held in times.items()}
    facts = machine() | {"duckdb": duckdb.__version__, "rows": ROWS}
    return Section("Governed queries", "ms", list(sides.values()), _figures(sides), facts)


async def _turns(works: list[Work], calls: int) -> dict[str, tuple[float, ...]]:
    """The sides take turns call by call, so that what disturbs the machine disturbs all of them."""
    taken: dict[str, list[float]] = {work.name: [] for work in works}
    for _ in range(calls):
        for work in works:
            for _ in range(work.often):
                started = time.perf_counter_ns()
                await work.run()
                taken[work.name].append((time.perf_counter_ns() - started) / 1e6)
    return {name: tuple(held) for name, held in taken.items()}


def _figures(sides: dict[str, Side]) -> list[Figure]:
    return [
        Figure(f"{GOVERNED} / {HAND}", sides[GOVERNED].p50 / sides[HAND].p50, most=1.05),
        Figure(f"{MASKED} / {HAND_MASKED}", sides[MASKED].p50 / sides[HAND_MASKED].p50),
        Figure(f"{HAND}, p50", sides[HAND].p50, unit="ms"),
        Figure(f"{BIND}, p50", sides[BIND].p50 * 1_000, unit="us", most=150),
        Figure(f"{BIND}, p99", sides[BIND].p99 * 1_000, unit="us"),
        Figure(f"{COLD_SMALL}, p50", sides[COLD_SMALL].p50, unit="ms"),
        Figure(f"{COLD_LARGE}, p50", sides[COLD_LARGE].p50, unit="ms"),
    ]


def _queries(engine: DuckDbEngine, by_hand: duckdb.DuckDBPyConnection, template: Template) -> list[Work]:
    plain, masked = _authority({}), _authority({"readings.product": Mask.TRUNCATE})

    async def governed(authority: Authority) -> bytes:
        bound = bind(template, _ARGUMENTS)
        document, _ = await run_whole(engine, authority, template, bound, max_rows=10_000, max_bytes=10**7, as_of=AS_OF)
        return document.body

    async def written(product: str) -> bytes:
        return await asyncio.to_thread(_by_hand, by_hand, template, _BY_HAND.format(product=product))

    return [
        Work(HAND, lambda: written("r.product")),
        Work(GOVERNED, lambda: governed(plain)),
        Work(HAND_MASKED, lambda: written(_SHORT)),
        Work(MASKED, lambda: governed(masked)),
    ]


def _by_hand(connection: duckdb.DuckDBPyConnection, template: Template, text: str) -> bytes:
    """The same rows into the same bytes, for whom nothing is decided."""
    values: dict[str, Any] = {**_ARGUMENTS, "sites": list(_SITES), "most": _MOST}
    with connection.cursor() as cursor:
        reader = cursor.sql(text, params=values).to_arrow_reader(20_000)
        return document_of(template.results, reader, AS_OF).body


def _steps(connection: duckdb.DuckDBPyConnection, template: Template, shipped: _Shipped) -> list[Work]:
    """What comes before a query: the arguments, the authority, and the text, remembered or made."""
    authority = _authority({"readings.product": Mask.HASH})
    warm = Calls(SECRET.hex(), {}, 2**30, cores())
    small, large = govern(template, authority).shape, govern(shipped.template, shipped.authority).shape
    cursor = connection.cursor()

    async def bound() -> object:
        held, governed = bind(template, _ARGUMENTS), govern(template, authority)
        call = warm.call(template, governed.shape, {**held.values, **governed.values}, None, 10_000)
        return warm.query(cursor, call)

    async def cold_small() -> object:
        return Texts().text(cursor, template, small)

    async def cold_large() -> object:
        return Texts().text(shipped.cursor, shipped.template, large)

    return [Work(BIND, bound, 100), Work(COLD_SMALL, cold_small, 5), Work(COLD_LARGE, cold_large, 5)]


@dataclass(frozen=True, slots=True)
class _Shipped:
    """The largest shipped template, an authority for it and its own database."""

    template: Template
    authority: Authority
    cursor: duckdb.DuckDBPyConnection


def _shipped(folder: Path) -> _Shipped:
    datasets = Path(__file__).resolve().parents[1] / "datasets"
    manifest = load_registry(datasets).datasets["purification-batches"]
    capability = next(held for held in manifest.capabilities if held.name == "detect_outliers")
    home = datasets / manifest.dataset
    template = load_template(
        (home / str(capability.template)).read_text(encoding="utf-8"),
        name=str(capability.template),
        dataset=manifest.dataset,
        tables=manifest.tables,
        parameters=capability.parameters,
        results=capability.results,
        ceiling=Sensitivity(capability.sensitivity),
    )
    path = database_file(manifest.dataset, manifest.version, "", home, manifest.tables, folder)
    sites = {f"{table.name}.site": {"one_of": ["Basel"]} for table in manifest.tables if table.column("site")}
    read = {name: value for name, value in sites.items() if name.split(".")[0] in template.tables_read}
    authority = _authority({"batch_record.batch_id": Mask.HASH}, dataset=manifest.dataset, rows=read)
    return _Shipped(template, authority, connect(path, "256MB", 30.0, threads=cores()))


def _authority(masks: dict[str, Mask], dataset: str = DATASET, rows: dict[str, Any] | None = None) -> Authority:
    """From a verified grant and a policy that narrows rows by two columns."""
    chains = Chains()
    chains.scope = Scope(
        dataset=dataset,
        dataset_version="1.0.0",
        revision="r1",
        actions=frozenset({"bench"}),
        locations=frozenset(AGENTS[1:2]),
        max_sensitivity=Sensitivity.INTERNAL,
    )
    grant = chains.verify(chains.passed_on(2))
    narrowed = {"readings.site": {"one_of": list(_SITES)}, "readings.units": {"max": _MOST}} if rows is None else rows
    decision = Decision(
        Reason.PRINCIPAL_AUTHORIZED,
        policy_id="BPD-DATA-014",
        policy_version="2026.09.01",
        rationale="the principal may",
        obligations=Obligations(rows=parse_rows(narrowed), columns=None, masks=MappingProxyType(masks)),
    )
    principal = Principal(
        issuer=ISSUER,
        subject=grant.subject,
        tenant=grant.tenant,
        name="process_engineer",
        principal_class="process-engineer",
        clearance=Sensitivity.INTERNAL,
    )
    return Authority.of(
        grant,
        decision,
        principal,
        scope=grant.scopes[0],
        capability="bench",
        schema_version="1",
        sensitivity=Sensitivity.INTERNAL,
    )


def _build(folder: Path) -> Table:
    """A table of ``ROWS`` readings, as a Parquet file."""
    (folder / "data").mkdir()
    duckdb.sql(
        f"""COPY (
          SELECT i AS id, printf('site-%02d', hash(i) % 16) AS site, 'product-' || (hash(i + 1) % 7) AS product,
            DATE '2020-01-01' + CAST(hash(i + 2) % 1800 AS INTEGER) AS day,
            CAST((hash(i + 3) % 10000000) / 1000 AS DECIMAL(38, 9)) AS amount,
            CASE WHEN hash(i + 4) % 11 = 0 THEN NULL ELSE CAST(hash(i + 5) % 1000 AS BIGINT) END AS units
          FROM range({ROWS}) AS numbers(i)
        ) TO '{folder / "data" / "readings.parquet"}' (FORMAT PARQUET)"""
    )
    columns = [Column.model_validate({"name": name, "type": kind}) for name, kind in _COLUMNS.items()]
    return Table(name="readings", file="data/readings.parquet", columns=tuple(columns))


def _template(table: Table) -> Template:
    return load_template(
        _TEMPLATE,
        name="templates/bench.sql",
        dataset=DATASET,
        tables=(table,),
        parameters=[
            Parameter.model_validate({"name": "since", "type": "DATE", "description": "the first day"}),
            Parameter.model_validate({"name": "without", "type": "STRING", "description": "a product"}),
        ],
        results=[ResultColumn.model_validate({"name": name, "type": kind}) for name, kind in _RESULTS.items()],
        ceiling=Sensitivity.INTERNAL,
    )
