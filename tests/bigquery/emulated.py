"""Tables of the emulator, filled over its own wire, and an engine that asks them."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from contract.schema import Column, StructField, Table
from contract.scope import Sensitivity
from control_plane.manifest import CapabilityManifest, DatasetManifest
from queries.bigquery_engine import BigQueryEngine
from queries.bigquery_options import BigQueryOptions, Budget, Emulator
from queries.bind import bind
from queries.engine import Engine
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import AS_OF
from tests.bigquery.emulator import REST, STORAGE
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, TABLES

PROJECT = "data-project"
DATASETS = Path(__file__).resolve().parents[2] / "datasets"


def in_bigquery(table: Table, dataset: str) -> Table:
    """The same table, as one of the emulator."""
    return Table(name=table.name, bigquery=f"{PROJECT}.{dataset}.{table.name}", columns=table.columns)


SHOP = tuple(in_bigquery(table, "shop_data") for table in TABLES)


def client() -> bigquery.Client:
    return bigquery.Client(
        project=PROJECT,
        credentials=AnonymousCredentials(),
        client_options=ClientOptions(api_endpoint=os.environ[REST]),
    )


def options(**more: Any) -> BigQueryOptions:
    given: dict[str, Any] = {"project": PROJECT, "location": "US", "budget": Budget(50 * 2**20), **more}
    return BigQueryOptions(emulator=Emulator(os.environ[REST], os.environ[STORAGE]), **given)


def engine(dataset: str, **more: Any) -> BigQueryEngine:
    timeout = more.pop("timeout", 60.0)
    return BigQueryEngine.open(dataset, "1.0.0", options(**more), timeout=timeout, mask_key=MASK_KEY)


def fill(asked: bigquery.Client, table: Table, rows: pa.Table) -> None:
    """Make the table with its declared schema and load ``rows``."""
    assert table.bigquery is not None
    dataset = table.bigquery.rsplit(".", 1)[0]
    asked.create_dataset(dataset, exists_ok=True)
    asked.delete_table(table.bigquery, not_found_ok=True)
    held = io.BytesIO()
    pq.write_table(rows, held)
    held.seek(0)
    config = bigquery.LoadJobConfig(source_format="PARQUET", schema=[_field(column) for column in table.columns])
    asked.load_table_from_file(held, table.bigquery, job_config=config).result()


def manifests() -> Iterable[tuple[Path, DatasetManifest]]:
    """The shipped datasets."""
    for path in sorted(DATASETS.glob("*/descriptor.yaml")):
        yield path.parent, DatasetManifest.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def loaded(
    folder: Path, manifest: DatasetManifest, capability: CapabilityManifest, tables: tuple[Table, ...]
) -> Template:
    return load_template(
        (folder / str(capability.template)).read_text(encoding="utf-8"),
        name=str(capability.template),
        dataset=manifest.dataset,
        tables=tables,
        parameters=capability.parameters,
        results=capability.results,
        ceiling=Sensitivity(capability.sensitivity),
        minimum_group=capability.minimum_group,
    )


def _field(column: Column | StructField) -> bigquery.SchemaField:
    return bigquery.SchemaField(
        column.name, column.type.value, column.mode.value, fields=[_field(field) for field in column.fields]
    )


async def body(engine: Engine, loaded: Template, arguments: dict[str, Any] | None = None, **more: Any) -> str:
    supplied = more.pop("supplied", None)
    authority = make_authority(dataset=more.pop("dataset", DATASET), capability="c", **more)
    found, _ = await run_whole(
        engine,
        authority,
        loaded,
        bind(loaded, arguments or {}),
        max_rows=10_000,
        max_bytes=10**7,
        as_of=AS_OF,
        supplied=supplied,
    )
    return found.body.decode()
