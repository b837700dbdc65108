"""The committed results: values of every type, as DuckDB makes them, as BigQuery sends them, and as the one JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from contract.schema import Column, ResultColumn, Table
from contract.scope import Sensitivity
from queries.template import Template, load_template
from tests.queries.world import DATASET

_FILE = Path(__file__).with_name("vectors.json")
_OLD_NAMES = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD"}


@dataclass(frozen=True)
class Vector:
    """``rest`` are the cells of BigQuery's REST answer, ``body`` the document.

    What is not ``finite`` may not be base data of DuckDB's; what is not ``emulated`` the emulator does not keep.
    """

    name: str
    column: dict[str, Any]
    finite: bool
    emulated: bool
    duckdb: str
    rest: list[list[Any]]
    body: str

    @property
    def results(self) -> tuple[ResultColumn, ...]:
        return (ResultColumn(name="id", type="INT64"), ResultColumn.model_validate(self.column))

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The schema of the REST answer, with BigQuery's older names of types."""
        return [_field({"name": "id", "type": "INT64"}), _field(self.column)]

    def arrow(self) -> pa.Table:
        """The rows as DuckDB gives them."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone='UTC'")
            return connection.sql(self.duckdb).to_arrow_table()

    @property
    def table_name(self) -> str:
        """Of a base table that holds the rows."""
        return f"v{vectors().index(self)}"

    def table(self, **where: Any) -> Table:
        columns = (Column(name="id", type="INT64"), Column.model_validate(self.column))
        return Table(name=self.table_name, columns=columns, **where)

    def template(self, **where: Any) -> Template:
        return load_template(
            f"SELECT v.id AS id, v.x AS x FROM {self.table_name} AS v ORDER BY v.id",
            name="templates/v.sql",
            dataset=DATASET,
            tables=(self.table(**where),),
            parameters=(),
            results=self.results,
            ceiling=Sensitivity.RESTRICTED,
        )


@cache
def vectors() -> tuple[Vector, ...]:
    return tuple(Vector(**item) for item in json.loads(_FILE.read_text(encoding="utf-8")))


def _field(column: dict[str, Any]) -> dict[str, Any]:
    told = {**column, "type": _OLD_NAMES.get(column["type"], column["type"])}
    told.setdefault("mode", "NULLABLE")
    if "fields" in column:
        told["fields"] = [_field(field) for field in column["fields"]]
    return told
