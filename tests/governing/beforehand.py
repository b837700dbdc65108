"""Templates run as they were written, over tables that hold only what a case leaves of them.

Nothing here knows how the product governs. ``tests.queries.oracle`` filters and masks rows in
plain Python; they become ordinary tables of an ordinary in-memory DuckDB, and its own binder
finds them by the names that the template says: no tree is rewritten, no node is marked. Two
texts are run there:

- *settled*: the query with its names and types settled and each expression in DuckDB's words,
  which is what gives it GoogleSQL's meaning and is judged elsewhere, by Google's own
  implementation. It holds no condition and no mask.
- *plain*: the author's text after an ordinary transpile, which shares nothing with the product.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

from contract.schema import Table
from queries import duckdb_text  # noqa: F401  imports what gives each expression its meaning
from queries.duckdb_dialect import to_duckdb
from queries.duckdb_macros import macro_statements
from queries.duckdb_types import arrow_type
from queries.template import Template
from queries.typed import declared_type
from tests.queries.documents import document_of

AS_OF = "2026-08-31T22:00:00Z"
Rows = Mapping[str, list[dict[str, Any]]]


class Beforehand:
    """One in-memory database, filled anew for each case."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        for statement in ("SET TimeZone = 'UTC'", "SET ieee_floating_point_ops = false", "BEGIN"):
            self._connection.execute(statement)
        for statement in (*macro_statements(), "COMMIT"):
            self._connection.execute(statement)
        self._filled: dict[str, list[dict[str, Any]]] = {}

    def fill(self, tables: tuple[Table, ...], rows: Rows) -> None:
        """Make ``rows`` the tables; those that are there already with the same list of rows are kept."""
        for table in tables:
            if self._filled.get(table.name) is rows[table.name]:
                continue
            self._connection.register("incoming", arrow_table(table, rows[table.name]))
            self._connection.execute(f'CREATE OR REPLACE TABLE "{table.name}" AS SELECT * FROM incoming')
            self._connection.unregister("incoming")
            self._filled[table.name] = rows[table.name]

    def settled(self, template: Template, values: Mapping[str, Any]) -> bytes:
        """The result's bytes, as the product writes them. Raises ``duckdb.Error``."""
        text = to_duckdb(template.tree())[0]
        reader = self._connection.sql(text, params=self._named(text, values)).to_arrow_reader(20_000)
        return document_of(template.results, reader, AS_OF).body

    def plain(self, sql: str, values: Mapping[str, Any]) -> list[list[Any]]:
        """The rows as JSON values, in no order that is compared. Raises ``duckdb.Error``."""
        (text,) = sqlglot.transpile(sql, read="bigquery", write="duckdb")
        return [
            [_json(value) for value in row]
            for row in self._connection.sql(text, params=self._named(text, values)).fetchall()
        ]

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def _named(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if f"${name}" in text}


def arrow_table(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([pa.field(column.name, arrow_type(declared_type(column))) for column in table.columns])
    return pa.Table.from_pylist(rows, schema=schema)


def same_rows(body: bytes, rows: list[list[Any]]) -> bool:
    """Whether a result holds exactly these rows, in whatever order."""
    return sorted(map(json.dumps, json.loads(body)["rows"])) == sorted(map(json.dumps, rows))


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, dt.date) else value
