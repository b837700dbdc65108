"""The small dataset of ``tests.queries.world`` as tables of BigQuery, and an engine that asks a given service."""

from __future__ import annotations

import json
from typing import Any

from contract.authority import Authority
from contract.result import Execution
from contract.schema import Parameter, ResultColumn, Table
from contract.scope import Sensitivity
from queries.bigquery_engine import BigQueryEngine
from queries.bigquery_options import BigQueryOptions, Budget, Emulator
from queries.bind import bind
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, TABLES, results

AS_OF = "2026-08-31T22:00:00Z"
BUDGET = 50 * 2**20
STORED = tuple(
    Table(name=table.name, bigquery=f"data-project.shop_data.{table.name}", columns=table.columns) for table in TABLES
)


def stored_template(
    sql: str,
    declared: str | tuple[ResultColumn, ...],
    *parameters: Parameter,
    tables: tuple[Table, ...] = STORED,
    **more: Any,
) -> Template:
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=tables,
        parameters=parameters,
        results=results(declared) if isinstance(declared, str) else declared,
        ceiling=Sensitivity.RESTRICTED,
        **more,
    )


def options_for(url: str, *, storage: str | None = None, **more: Any) -> BigQueryOptions:
    given: dict[str, Any] = {"project": "billing", "location": "EU", "budget": Budget(BUDGET), **more}
    return BigQueryOptions(emulator=Emulator(url, storage), **given)


def engine_for(url: str, *, timeout: float = 20.0, storage: str | None = None, **more: Any) -> BigQueryEngine:
    access = more.pop("access", None)
    options = options_for(url, storage=storage, **more)
    return BigQueryEngine.open(DATASET, "1.0.0", options, timeout=timeout, mask_key=MASK_KEY, access=access)


async def asked(
    engine: BigQueryEngine, loaded: Template, arguments: dict[str, Any] | None = None, **more: Any
) -> tuple[dict[str, Any], Execution]:
    """The document as JSON, and the run."""
    limits = {"max_rows": more.pop("max_rows", 10_000), "max_bytes": more.pop("max_bytes", 10**7)}
    supplied = more.pop("supplied", None)
    authority: Authority = more.pop("authority", None) or make_authority(dataset=DATASET, capability="c", **more)
    document, execution = await run_whole(
        engine, authority, loaded, bind(loaded, arguments or {}), as_of=AS_OF, supplied=supplied, **limits
    )
    return json.loads(document.body), execution
