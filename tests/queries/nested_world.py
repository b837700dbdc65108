"""Two tables with arrays and structs, their rows, and an engine on them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from contract.schema import Parameter, ResultColumn, Table
from contract.scope import Sensitivity
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_types import arrow_type
from queries.template import Template, load_template
from queries.typed import declared_type
from tests.authority_builder import make_authority
from tests.oracle.product import declared
from tests.queries.documents import run as run_whole

DATASET = "nest"
DEEP = {
    "id": "INT64",
    "k": "STRING",
    "tags": "ARRAY<STRING>",
    "nums": "ARRAY<INT64>",
    "s": "STRUCT<x INT64, y STRUCT<z STRING, w ARRAY<DATE>>>",
    "lines": "ARRAY<STRUCT<sku STRING, qty INT64, t ARRAY<STRING>>>",
}
OTHER = {"id": "INT64", "name": "STRING", "v": "FLOAT64", "d": "DATE"}
DEEP_ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "k": "a", "tags": ["b", "a"], "nums": [3, 1, 2],
        "s": {"x": 5, "y": {"z": "zz", "w": [dt.date(2024, 2, 29)]}},
        "lines": [{"sku": "A", "qty": 2, "t": ["q", "r"]}, {"sku": "B", "qty": 1, "t": []}],
    },
    {"id": 2, "k": "a", "tags": [], "nums": None, "s": None, "lines": None},
    {"id": 3, "k": "b", "tags": None, "nums": [7], "s": {"x": None, "y": None}, "lines": []},
    {
        "id": 4, "k": None, "tags": ["a", "a", "%"], "nums": [], "s": {"x": 1, "y": {"z": None, "w": None}},
        "lines": [{"sku": None, "qty": 3, "t": None}, {"sku": "A", "qty": None, "t": ["é"]}],
    },
    {
        "id": 5, "k": "b", "tags": ["c"], "nums": [-1, 9223372036854775807], "s": {"x": -2, "y": {"z": "a", "w": []}},
        "lines": [{"sku": "C", "qty": 0, "t": ["a", "a"]}],
    },
]  # fmt: skip
OTHER_ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "one", "v": 1.5, "d": dt.date(2024, 1, 31)},
    {"id": 1, "name": "uno", "v": -0.5, "d": None},
    {"id": 3, "name": None, "v": None, "d": dt.date(2023, 2, 28)},
    {"id": 9, "name": "nine", "v": 0.0, "d": dt.date(2000, 1, 1)},
]


def table(name: str, columns: Mapping[str, str]) -> Table:
    """A table of GoogleSQL types as they are spelled."""
    held = [declared(column, kind) for column, kind in columns.items()]
    return Table.model_validate({"name": name, "file": f"data/{name}.parquet", "columns": held})


TABLES = (table("deep", DEEP), table("other", OTHER))


def parameter(name: str, kind: str, **more: Any) -> Parameter:
    """A parameter of a type as GoogleSQL spells it."""
    held = declared(name, kind)
    repeated = held.pop("mode", None) == "REPEATED"
    return Parameter.model_validate({**held, "description": "a test parameter", "repeated": repeated, **more})


def columns(spelled: Mapping[str, str]) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn.model_validate(declared(name, kind)) for name, kind in spelled.items())


def template(sql: str, results: Mapping[str, str], *parameters: Parameter) -> Template:
    """``results`` are names and types as GoogleSQL spells them."""
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=parameters,
        results=columns(results),
        ceiling=Sensitivity.RESTRICTED,
    )


def open_engine(folder: Path, deep: list[dict[str, Any]] = DEEP_ROWS) -> DuckDbEngine:
    """Write the tables' files below ``folder`` and open an engine on them."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for held, rows in zip(TABLES, (deep, OTHER_ROWS), strict=True):
        schema = pa.schema([(column.name, arrow_type(declared_type(column))) for column in held.columns])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / str(held.file))
    return reopen(folder)


def reopen(folder: Path) -> DuckDbEngine:
    """An engine on the files that are there."""
    return DuckDbEngine.open(
        DATASET, "1.0.0", folder, TABLES, scratch=folder / "scratch", mask_key=b"0123456789abcdef-mask"
    )


async def answer(engine: DuckDbEngine, loaded: Template, arguments: Mapping[str, Any] | None = None) -> list[list[Any]]:
    """The rows of a template that is loaded and bound once before. Raises what the engine raises."""
    await engine.check(loaded)
    authority = make_authority(dataset=DATASET, capability="c")
    document, _ = await run_whole(
        engine,
        authority,
        loaded,
        bind(loaded, arguments or {}),
        max_rows=1_000,
        max_bytes=10**6,
        as_of="2026-08-31T22:00:00Z",
    )
    rows: list[list[Any]] = json.loads(document.body)["rows"]
    return rows
