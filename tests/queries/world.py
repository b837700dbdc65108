"""A small dataset, its Parquet files and templates, for the tests of ``queries``."""

from __future__ import annotations

import atexit
import datetime as dt
import random
import shutil
import tempfile
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from contract.schema import Column, Parameter, ResultColumn, Table
from contract.scope import Sensitivity
from queries.duckdb_file import database_file
from queries.template import Template, load_template

DATASET = "shop"
MASK_KEY = b"0123456789abcdef-mask"
ARROW = {
    "STRING": pa.string(),
    "INT64": pa.int64(),
    "FLOAT64": pa.float64(),
    "NUMERIC": pa.decimal128(38, 9),
    "BOOL": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def table(name: str, *columns: str) -> Table:
    """A table from ``name:TYPE`` texts."""
    pairs = (column.split(":") for column in columns)
    return Table(
        name=name,
        file=f"data/{name}.parquet",
        columns=tuple(Column.model_validate({"name": column, "type": kind}) for column, kind in pairs),
    )


ORDERS = table(
    "orders", "id:INT64", "region:STRING", "customer:INT64", "amount:NUMERIC", "score:FLOAT64", "day:DATE",
    "at:TIMESTAMP", "paid:BOOL", "note:STRING",
)  # fmt: skip
LINES = table("lines", "order_id:INT64", "sku:STRING", "qty:INT64", "price:NUMERIC")
CUSTOMERS = table("customers", "id:INT64", "name:STRING", "region:STRING", "born:DATE")
TABLES = (ORDERS, LINES, CUSTOMERS)


def parameter(text: str, **more: Any) -> Parameter:
    """A parameter from ``name:TYPE`` or ``name:TYPE[]``."""
    name, kind = text.split(":")
    repeated = kind.endswith("[]")
    return Parameter.model_validate(
        {"name": name, "type": kind.removesuffix("[]"), "repeated": repeated, "description": "a test parameter", **more}
    )


def results(text: str) -> tuple[ResultColumn, ...]:
    pairs = (item.split(":") for item in text.split())
    return tuple(ResultColumn.model_validate({"name": name, "type": kind}) for name, kind in pairs)


def template(
    sql: str,
    declared: str,
    *parameters: Parameter,
    tables: tuple[Table, ...] = TABLES,
    ceiling: Sensitivity = Sensitivity.RESTRICTED,
) -> Template:
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=tables,
        parameters=parameters,
        results=results(declared),
        ceiling=ceiling,
    )


def rows(seed: int = 1, size: int = 60) -> dict[str, list[dict[str, Any]]]:
    """Random rows with NULLs, ties, unmatched keys and text that LIKE treats specially."""
    rng = random.Random(seed)
    regions = ["EU", "US", "APAC", None]

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.12 else value

    customers = [
        {
            "id": number,
            "name": rng.choice(["Ann", "Bob", "Zoë", "a%b", "a_b", "ann"]),
            "region": rng.choice(regions),
            "born": maybe(dt.date(1950 + rng.randrange(50), rng.randrange(1, 13), rng.randrange(1, 29))),
        }
        for number in range(1, 13)
    ]
    orders = [
        {
            "id": number,
            "region": rng.choice(regions),
            "customer": maybe(rng.randrange(1, 16)),
            "amount": maybe(Decimal(rng.randrange(-5_000_000, 90_000_000)) / Decimal(10_000)),
            "score": maybe(rng.choice([rng.uniform(-5, 5), 0.5, 1.25])),
            "day": maybe(dt.date(2024, 1, 1) + dt.timedelta(days=rng.randrange(400))),
            "at": maybe(dt.datetime(2024, 3, 30, tzinfo=dt.UTC) + dt.timedelta(seconds=rng.randrange(400_000))),
            "paid": maybe(rng.random() < 0.5),
            "note": maybe(rng.choice(["", "x", "50%", "under_score", "back\\slash", " padded ", "é"])),
        }
        for number in range(1, size + 1)
    ]
    lines = [
        {
            "order_id": rng.randrange(1, size + 5),
            "sku": maybe(rng.choice(["A-1", "A-2", "B-1", "C"])),
            "qty": maybe(rng.randrange(0, 9)),
            "price": maybe(Decimal(rng.randrange(0, 1_000_000)) / Decimal(1_000)),
        }
        for _ in range(3 * size)
    ]
    return {"orders": orders, "lines": lines, "customers": customers}


def write(folder: Path, data: dict[str, list[dict[str, Any]]], tables: tuple[Table, ...] = TABLES) -> Path:
    """Write the tables' Parquet files below ``folder`` and return it."""
    for item in tables:
        schema = pa.schema([(column.name, ARROW[column.type.value]) for column in item.columns])
        path = folder / item.file
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(data[item.name], schema=schema), path)
    return folder


@cache
def _built() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shop-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    database_file(DATASET, "1.0.0", "", write(folder, rows()), TABLES, folder / "scratch")
    return folder


def shop(folder: Path) -> Path:
    """``write(folder, rows())``, and in its ``scratch`` the database file of version 1.0.0: built once, copied since."""
    return Path(shutil.copytree(_built(), folder, dirs_exist_ok=True))
