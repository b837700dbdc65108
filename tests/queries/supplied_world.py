"""A relation that another dataset agent supplies, beside the small dataset of ``world``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from contract.result import ResultDocument
from contract.schema import Parameter, ResultColumn, Table
from contract.scope import Sensitivity
from queries.supplied import SuppliedRelation
from queries.template import Template, load_template
from tests.queries.documents import document_of
from tests.queries.world import ARROW, DATASET, TABLES, results, table

AS_OF = "2026-08-31T22:00:00Z"
DECLARED = "order_id:INT64 region:STRING area:FLOAT64 price:NUMERIC day:DATE at:TIMESTAMP good:BOOL"
PEAKS = SuppliedRelation("peaks", results(DECLARED))
PEAKS_TABLE = table("peaks", *DECLARED.split())
ALL_ARROW = ARROW | {"DATETIME": pa.timestamp("us"), "TIME": pa.time64("us"), "BYTES": pa.binary()}


def peaks(seed: int = 7, size: int = 40) -> list[dict[str, Any]]:
    """Random rows with NULLs, duplicates, and keys and regions that the base tables have too."""
    rng = random.Random(seed)
    from_orders = [
        {
            "order_id": rng.choice([None, *range(1, 30)]),
            "region": rng.choice(["EU", "US", "APAC", "MARS", None]),
            "area": rng.choice([None, 0.5, 1.25, rng.uniform(0, 9)]),
            "price": None,
            "day": None,
            "at": None,
            "good": rng.choice([None, True, False]),
        }
        for _ in range(size)
    ]
    return from_orders + from_orders[:5]


def document(columns: Sequence[ResultColumn], rows: list[dict[str, Any]]) -> ResultDocument:
    """The result a dataset agent would have sent for these rows."""
    arrays = [
        pa.array(
            [row[column.name] for row in rows],
            type=pa.list_(ALL_ARROW[column.type.value])
            if column.mode.value == "REPEATED"
            else ALL_ARROW[column.type.value],
        )
        for column in columns
    ]
    return document_of(columns, [pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])], AS_OF)


def supplied_template(
    sql: str,
    declared: str,
    *parameters: Parameter,
    tables: tuple[Table, ...] = TABLES,
    supplied: SuppliedRelation | None = PEAKS,
) -> Template:
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=tables,
        parameters=parameters,
        results=results(declared),
        ceiling=Sensitivity.RESTRICTED,
        supplied=supplied,
    )
