"""The rows of a table's file, whichever of the three kinds it is, in Arrow batches.

What comes out of a Parquet or DuckDB file has the file's own types, which the caller compares
with the declared ones; what comes out of a CSV file was read as declared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fcntl import LOCK_NB, LOCK_SH, lockf
from io import FileIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from contract.files import path_of
from contract.schema import SqlType, Table
from queries.csv_file import BATCH_ROWS, csv_batches
from queries.duckdb_types import arrow_type
from queries.errors import DataError
from queries.typed import declared_type

_DATED: Final = (SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP)
_IN_USE: Final = "another program has it open for writing"
_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}


@dataclass(frozen=True, slots=True)
class Incoming:
    """The types that a file holds, and its rows; the batches hold at least the declared columns."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def opened(table: Table, source: FileIO, beside: Path | None) -> Iterator[Incoming]:
    """The rows of ``source``, which is the file of ``table``. Raises ``DataError``, also while it is iterated.

    ``beside`` is the file that is filled with them, ``None`` for one in memory.
    """
    match Path(table.source).suffix:
        case ".csv":
            schema = pa.schema([pa.field(c.name, arrow_type(declared_type(c))) for c in table.columns])
            with closing(csv_batches(source, table)) as batches:
                yield Incoming(schema, batches)
        case ".duckdb":
            with _copied(source, table, beside) as path, open_database(path, table.source) as connection:
                yield _relation(connection, table)
        case _:
            with pq.ParquetFile(path_of(source)) as file:
                yield Incoming(file.schema_arrow, file.iter_batches(BATCH_ROWS, columns=_present(table, file)))


@contextmanager
def _copied(source: FileIO, table: Table, beside: Path | None) -> Iterator[Path]:
    """The database in a file of our own: DuckDB opens whatever has a name by then, and not what is open.

    Its name is the one of ``beside`` and more, so that it goes with it where a process was killed.
    """
    try:
        lockf(source, LOCK_SH | LOCK_NB)  # as DuckDB asks before it reads
    except (BlockingIOError, PermissionError):
        raise DataError(table.source, f"cannot be opened: {_IN_USE}") from None
    except OSError:  # a file system without locks
        pass
    with ExitStack() as held:
        if beside is None:
            path = Path(held.enter_context(TemporaryDirectory(prefix="dataset-agent-source-")), "source")
        else:
            path = beside.with_name(f"{beside.name}.source")
        held.callback(path.unlink, missing_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as copy:
            source.seek(0)
            copyfileobj(source, copy, 2**20)
        yield path


def refuse_unfinished(path: Path, source: str) -> None:
    """Raises ``DataError`` where a database's latest changes are still in another file."""
    if path.with_name(f"{path.name}.wal").exists():
        raise DataError(source, "a .wal file stands beside it: close whoever writes it, or run CHECKPOINT there")


def _present(table: Table, file: pq.ParquetFile) -> list[str]:
    names = set(file.schema_arrow.names)
    return [column.name for column in table.columns if column.name in names]


@contextmanager
def open_database(path: Path, source: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB file of somebody else, read only: what a view in it would reach stays closed. Raises ``DataError``."""
    refuse_unfinished(path, source)
    try:
        connection = duckdb.connect(str(path), read_only=True, config=_SETTINGS)
    except duckdb.Error as error:
        why = _IN_USE if "lock" in str(error).lower() else "it is no DuckDB database"
        raise DataError(source, f"cannot be opened ({type(error).__name__}): {why}") from None
    with connection:
        connection.execute("SET TimeZone='UTC'")
        connection.execute("SET enable_progress_bar=false")  # it would go to standard output
        connection.execute("SET lock_configuration=true")
        yield connection


def base_tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The names of the tables of the schema ``main``; views are none."""
    found = connection.execute(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal ORDER BY table_name"
    ).fetchall()
    return [str(name) for (name,) in found]


def _is_computed(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether the table has a column that is an expression: reading it would run what somebody else wrote."""
    found = connection.execute(
        "SELECT sql FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'main' "
        "AND table_name = ?",
        [name],
    ).fetchall()
    return any(re.search(r"\bGENERATED\s+ALWAYS\s+AS\b", str(text), re.IGNORECASE) for (text,) in found)


def _relation(connection: duckdb.DuckDBPyConnection, table: Table) -> Incoming:
    name = table.relation or table.name
    known = base_tables(connection)
    if name not in known:
        some = ", ".join(known[:8]) or "none"
        raise DataError(table.source, f"table {table.name}: the file has no base table {name[:64]!r}; it has {some}")
    if _is_computed(connection, name):
        raise DataError(
            table.source, f"table {table.name}: a column is GENERATED, so reading computes; store its values"
        )
    quoted = quote(name)
    schema = connection.sql(f"SELECT * FROM {quoted} LIMIT 0").to_arrow_table().schema  # noqa: S608
    columns = [column for column in table.columns if column.name in schema.names]
    for column in columns:
        kind = schema.field(column.name).type
        if column.type in _DATED and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            # An infinite one arrives as some day of the calendar.
            endless = f"SELECT 1 FROM {quoted} WHERE isinf({quote(column.name)}) LIMIT 1"  # noqa: S608
            if connection.execute(endless).fetchall():
                raise DataError(table.source, f"{table.name}.{column.name} holds infinity; store NULL instead")
    wanted = ", ".join(quote(column.name) for column in columns) or "1"
    return Incoming(schema, _rows(connection, f"SELECT {wanted} FROM {quoted}", table))  # noqa: S608


def _rows(connection: duckdb.DuckDBPyConnection, query: str, table: Table) -> Iterator[pa.RecordBatch]:
    try:
        yield from connection.sql(query).to_arrow_reader(BATCH_ROWS)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise DataError(table.source, f"table {table.name}: the file cannot be read ({type(error).__name__})") from None


def quote(name: str) -> str:
    """A name as DuckDB writes it."""
    return '"' + name.replace('"', '""') + '"'
