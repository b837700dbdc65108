"""What ``datasets init`` reads of BigQuery: tables ``bq:project.dataset.table`` by their metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.scaffold_names import is_column, table_name
from dataset_agent.scaffold_source import SourceTable
from queries.bigquery_options import BigQueryOptions, Budget, Emulator
from remote_agent.engines import needs_bigquery

PREFIX: Final = "bq:"
_TABLE: Final = re.compile(r"[a-z][a-z0-9:.-]{4,61}[a-z0-9]\.[A-Za-z0-9_]{1,300}\.[A-Za-z0-9_-]{1,300}")
_BUDGET: Final = 2**30


def is_bigquery(source: str) -> bool:
    return source.startswith(PREFIX)


def bigquery_options_of(sources: Sequence[str], location: str) -> Mapping[str, Any]:
    """A descriptor's ``bigquery``: jobs run in the project of the first table. Raises ``DatasetAgentError``."""
    for source in sources:
        if not _TABLE.fullmatch(source.removeprefix(PREFIX)):
            raise _fault(f"{source[:120]!r} is no table: write bq:project.dataset.table")
    project = sources[0].removeprefix(PREFIX).rsplit(".", 2)[0]
    return {"project": project, "location": location, "maximum_bytes_billed": _BUDGET}


def read_bigquery(sources: Sequence[str], options: Mapping[str, Any], settings: Settings) -> list[SourceTable]:
    """The tables with the columns that can be declared. Raises ``DatasetAgentError``."""
    with needs_bigquery("that is to be made"):
        from queries.bigquery_tables import describe_tables
    asked = BigQueryOptions(
        project=options["project"],
        location=options["location"],
        budget=Budget(options["maximum_bytes_billed"]),
        emulator=None if settings.bigquery_emulator is None else Emulator(settings.bigquery_emulator),
    )
    made = []
    for described in describe_tables(asked, [source.removeprefix(PREFIX) for source in sources]):
        notes = [
            f"{c.name}: left out: {c.why or 'its type has no counterpart'}" for c in described.columns if c.type is None
        ]
        columns = []
        for column in described.columns:
            if column.type is not None and is_column(column.name):
                columns.append(column)
            elif column.type is not None:
                notes.append(f"{column.name}: left out: no name here; publish a view that renames it")
        if not columns:
            raise _fault(f"{described.name} has no column that can be declared: publish a view that renames them")
        name = table_name(described.name.rpartition(".")[2])
        made.append(SourceTable(name, tuple(columns), tuple(notes), bigquery=described.name))
    return made


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.datasets.source", message)
