"""What BigQuery says of tables: their columns in the types of a descriptor, and which state their data is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from google.api_core.exceptions import GoogleAPICallError
from google.api_core.retry import Retry
from google.cloud.bigquery import SchemaField
from google.cloud.bigquery import Table as BigQueryTable

from contract.canonical import digest
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_slug
from contract.schema import MAX_STRUCT_DEPTH, Mode, SqlType, StructField
from queries.bigquery_access import Access
from queries.bigquery_errors import is_access, is_transient, unreachable
from queries.bigquery_options import BigQueryOptions
from queries.bigquery_read import type_name
from queries.source_columns import SourceColumn

_KEPT: Final = {kind.value: kind for kind in SqlType}
_TIMEOUT: Final = 20.0


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table as it is now. ``modified`` is in UTC, ``None`` of a view, which cannot tell when its data changed.

    ``state`` changes with the data and the schema; of a view with its definition alone.
    """

    name: str
    columns: tuple[SourceColumn, ...]
    rows: int | None
    size: int | None
    modified: datetime | None
    state: str


@dataclass(frozen=True, slots=True)
class TablesState:
    """The revision of several tables together, and when the last of them changed, where all can tell."""

    revision: str
    modified: datetime | None


def describe_tables(
    options: BigQueryOptions, tables: Sequence[str], *, access: Access | None = None, timeout: float = _TIMEOUT
) -> tuple[DescribedTable, ...]:
    """Tables ``project.dataset.table`` by their metadata: no row is read, nothing is billed. Blocks.

    It runs as the agent's own account, or where accounts are named as the first that may. Raises
    a CONFIGURATION fault for a table that is not there or may not be seen, and an UNAVAILABLE one
    where BigQuery cannot be asked.
    """
    held = access or Access(options)
    try:
        return tuple(_described(name, _table(held, options, name, timeout)) for name in tables)
    finally:
        if access is None:
            held.close()


def state_of(tables: Sequence[DescribedTable]) -> TablesState:
    """Revision and age of a dataset with these tables; the order of the tables does not matter."""
    states = {table.name: table.state for table in tables}
    moments = [table.modified for table in tables]
    told = [moment for moment in moments if moment is not None]
    modified = max(told) if told and len(told) == len(moments) else None
    return TablesState(f"bigquery-{digest('dataset-agent/bigquery-revision/1', states)[:32]}", modified)


def bigquery_columns(schema: Sequence[SchemaField]) -> tuple[SourceColumn, ...]:
    """Columns in the types of a descriptor; one whose type has no form there says why."""
    return tuple(_column(field) for field in schema)


def _table(access: Access, options: BigQueryOptions, name: str, timeout: float) -> BigQueryTable:
    accounts: list[str | None] = [*sorted(set(options.accounts.values()))]
    refused = ""
    for account in accounts or [None]:
        try:
            found: BigQueryTable = access.client(account).get_table(
                name, retry=Retry(predicate=is_transient, initial=0.1, maximum=1.0, timeout=timeout), timeout=timeout
            )
            return found
        except GoogleAPICallError as error:
            if not is_access(error):
                raise unreachable(type(error).__name__) from None
            refused = type(error).__name__
        except DatasetAgentError:
            raise
        except Exception as error:
            raise unreachable(type(error).__name__) from None
    raise DatasetAgentError(
        Component.QUERIES,
        Category.CONFIGURATION,
        "queries.bigquery.table",
        f"{name}: BigQuery does not show this table ({refused}); is its name right, and may the account see it?",
    )


def _described(name: str, table: BigQueryTable) -> DescribedTable:
    stored = table.table_type in ("TABLE", "SNAPSHOT", "CLONE")
    modified = table.modified if stored else None
    state = {
        "etag": table.etag,
        "modified": None if table.modified is None else table.modified.astimezone(UTC).isoformat(),
        "rows": str(table.num_rows),
        "size": str(table.num_bytes),
        "schema": [field.to_api_repr() for field in table.schema],
    }
    return DescribedTable(
        name=name,
        columns=bigquery_columns(table.schema),
        rows=table.num_rows,
        size=table.num_bytes,
        modified=None if modified is None else modified.astimezone(UTC),
        state=digest("dataset-agent/bigquery-table/1", state),
    )


def _column(field: SchemaField) -> SourceColumn:
    kind = _KEPT.get(type_name(field.field_type))
    if kind is None:
        return SourceColumn(field.name, None, why=f"BigQuery's {type_name(field.field_type)} has no type here")
    if _scaled(field):
        return SourceColumn(field.name, None, why=f"a {type_name(field.field_type)} with more digits has no type here")
    fields = _fields(field, 1)
    if fields is None:
        return SourceColumn(field.name, None, why="a STRUCT with a field that has no name or type here")
    return SourceColumn(field.name, kind, Mode(field.mode), fields)


def _fields(field: SchemaField, depth: int) -> tuple[StructField, ...] | None:
    made = []
    for inner in field.fields:
        kind = _KEPT.get(type_name(inner.field_type))
        below = _fields(inner, depth + 1) if depth < MAX_STRUCT_DEPTH else None
        if kind is None or below is None or _scaled(inner) or not is_slug(inner.name):
            return None
        # REQUIRED holds for the stored table; a query's result knows no such field.
        mode = Mode.REPEATED if inner.mode == Mode.REPEATED else Mode.NULLABLE
        made.append(StructField(name=inner.name, type=kind, mode=mode, fields=below))
    return tuple(made)


def _scaled(field: SchemaField) -> bool:
    """A TIMESTAMP of picoseconds."""
    precision = getattr(field, "timestamp_precision", None)
    return getattr(precision, "value", None) is not None
