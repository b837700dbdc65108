"""Everything in a dataset's files that does not fit what is declared: for whoever publishes them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from contract.schema import Table
from queries.duckdb_file import import_table, source_file
from queries.errors import DataError
from queries.govern import DATA_SCHEMA


def source_faults(folder: Path, tables: Sequence[Table]) -> Iterator[tuple[Table, str | None, DataError]]:
    """Each fault with its table and, where one alone is at fault, its column. Blocks while it reads the files."""
    for table in tables:
        whole = _fault(folder, table)
        if whole is None:
            continue
        found: list[tuple[Table, str | None, DataError]] = [
            (table, column.name, fault)
            for column in table.columns
            if (fault := _fault(folder, table.model_copy(update={"columns": (column,)}))) is not None
        ]
        # What is wrong with the file is wrong with each of its columns.
        if len({fault.message for _, _, fault in found}) <= 1 or not found:
            found = [(table, _column(table, whole), whole)]
        yield from found


def _column(table: Table, fault: DataError) -> str | None:
    """The column that a fault of the whole table names."""
    said = fault.message.split()
    return next(
        (c.name for c in table.columns if any(word.strip(":") == f"{table.name}.{c.name}" for word in said)), None
    )


def _fault(folder: Path, table: Table) -> DataError | None:
    try:
        with imported(folder, table):
            return None
    except DataError as fault:
        return fault
    except duckdb.Error as error:
        return DataError(table.source, f"table {table.name}: cannot be stored ({type(error).__name__})")


@contextmanager
def imported(folder: Path, table: Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """The table as it would be served, in a database that is gone afterwards. Raises ``DataError``."""
    with (
        source_file(folder, table) as source,
        tempfile.TemporaryDirectory(prefix="dataset-agent-table-") as scratch,
        duckdb.connect(f"{scratch}/table.duckdb", config={"autoinstall_known_extensions": "false"}) as connection,
    ):
        connection.execute("SET enable_progress_bar=false")  # it would go to standard output
        connection.execute(f'CREATE SCHEMA "{DATA_SCHEMA}"')
        import_table(connection, table, source)
        yield connection
