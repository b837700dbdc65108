"""One read-only database file per dataset version, built from its tables' files.

The name of the file covers everything that went into it, so an existing one is complete and
right. Several processes may build at once: each builds its own and the first to finish wins.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from contract.canonical import digest
from contract.errors import Category, Component, DatasetAgentError
from contract.files import OutsideFolder, open_inside
from contract.schema import Table
from queries.duckdb_columns import check_types, converted, stored_type
from queries.duckdb_macros import MACROS, macro_statements
from queries.duckdb_sizes import write_sizes
from queries.duckdb_sources import Incoming, opened, refuse_unfinished
from queries.duckdb_types import arrow_type
from queries.errors import DataError
from queries.govern import DATA_SCHEMA
from queries.typed import declared_type

_FORMAT: Final = 2
_KEPT_SECONDS: Final = 7 * 86_400


def database_file(
    dataset: str, version: str, revision: str, folder: Path, tables: Sequence[Table], scratch: Path
) -> Path:
    """The database file of a dataset version in ``scratch``, built if it is not there.

    Raises ``DataError`` where a file is absent, changes while it is read, or does not fit its
    table's declaration.
    """
    with ExitStack() as open_files:
        # Open from here to the end: whatever is put in their places meanwhile, nothing else is hashed or read.
        sources = {table.name: open_files.enter_context(source_file(folder, table)) for table in tables}
        digests = {name: _digest_of(file) for name, file in sources.items()}
        identity = {
            "format": _FORMAT,
            "engine": duckdb.__version__,
            "macros": MACROS,
            "dataset": dataset,
            "version": version,
            "revision": revision,
            "tables": [table.model_dump(mode="json") for table in tables],
            "files": digests,
        }
        target = scratch / f"{dataset}-{digest('dataset-agent/database/1', identity)[:32]}.duckdb"
        if not target.exists():
            _prepare(scratch)
            _build(target, tables, sources, digests)
            _prune(target, dataset)
        return target


def _prepare(scratch: Path) -> None:
    try:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetAgentError(
            Component.QUERIES,
            Category.CONFIGURATION,
            "queries.scratch.unavailable",
            f"cannot make the scratch folder {scratch}: {error.strerror}",
        ) from error


def _prune(target: Path, dataset: str) -> None:
    """Remove files of the dataset that are a week older than the new one, and what crashes left.

    A process that still reads one keeps it until it closes.
    """
    name = re.compile(rf"\.?{re.escape(dataset)}-[0-9a-f]{{32}}\.duckdb(\..+)?")
    built = target.stat().st_mtime
    for path in target.parent.iterdir():
        if name.fullmatch(path.name) and path != target:
            try:
                if built - path.stat().st_mtime > _KEPT_SECONDS:
                    path.unlink()
            except FileNotFoundError:
                continue


def source_file(folder: Path, table: Table) -> FileIO:
    """A table's file, open. Raises ``DataError`` where it is not there, or not inside the folder."""
    if table.file is None:
        raise DataError(table.source, f"table {table.name}: its rows lie in BigQuery, not in a file")
    try:
        if table.file.endswith(".duckdb"):
            refuse_unfinished((folder / table.file).resolve(), table.source)
        return open_inside(folder, table.file)
    except OutsideFolder:
        raise DataError(table.source, f"table {table.name}: the file lies outside the dataset's folder") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(table.source, f"table {table.name}: {_unopened(error)}") from None


def _unopened(error: Exception) -> str:
    code = error.errno if isinstance(error, OSError) else errno.ELOOP
    if code in (errno.ELOOP, errno.ENAMETOOLONG):  # links in a circle, a name that is too long or holds NUL
        return "no file can have this path"
    if code in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
        return "the file does not exist"
    return f"the file cannot be read ({type(error).__name__})"


def _digest_of(file: FileIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _build(target: Path, tables: Sequence[Table], sources: Mapping[str, FileIO], digests: Mapping[str, str]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _fill(temporary, tables, sources)
        for name, file in sources.items():
            if _digest_of(file) != digests[name]:
                raise DataError(name, "the file changed while it was read; publish it again")
        os.chmod(temporary, 0o600)
        with temporary.open("rb") as made:
            os.fsync(made.fileno())
        try:
            # A link, unlike a rename, leaves the file of a faster process as it is.
            os.link(temporary, target)
        except FileExistsError:
            pass
    except duckdb.Error as error:
        raise DatasetAgentError(
            Component.QUERIES,
            Category.CONFIGURATION,
            "queries.database.failed",
            f"cannot build the database of {target.name}: {type(error).__name__}; check the space and rights of its folder",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)
        Path(f"{temporary}.wal").unlink(missing_ok=True)


def _fill(path: Path, tables: Sequence[Table], sources: Mapping[str, FileIO]) -> None:
    with duckdb.connect(str(path), config={"autoinstall_known_extensions": "false"}) as connection:
        connection.begin()  # one write to the disk for all of them
        for statement in macro_statements():
            connection.execute(statement)
        connection.commit()
        connection.execute(f'CREATE SCHEMA "{DATA_SCHEMA}"')
        for table in tables:
            import_table(connection, table, sources[table.name])
        write_sizes(connection, tables)
        connection.execute("CHECKPOINT")


def import_table(connection: duckdb.DuckDBPyConnection, table: Table, source: FileIO) -> None:
    """Make the table and fill it from ``source``. Raises ``DataError``."""
    columns = ", ".join(f'"{column.name}" {stored_type(column)}' for column in table.columns)
    connection.execute(f'CREATE TABLE "{DATA_SCHEMA}"."{table.name}" ({columns})')
    try:
        with opened(table, source, _place_of(connection)) as incoming:
            check_types(table, incoming.schema)
            connection.begin()
            # Batch by batch: inside a reader a fault of ours would come back as one of the engine's.
            for batch in _batches(table, incoming):
                connection.register("__incoming", pa.Table.from_batches([batch]))
                connection.execute(f'INSERT INTO "{DATA_SCHEMA}"."{table.name}" SELECT * FROM __incoming')  # noqa: S608
                connection.unregister("__incoming")
            connection.commit()
    except (pa.ArrowException, OSError) as error:
        raise DataError(table.source, f"table {table.name}: the file cannot be read ({type(error).__name__})") from None


def _place_of(connection: duckdb.DuckDBPyConnection) -> Path | None:
    """The file of the database that is filled; ``None`` for one in memory."""
    found = connection.execute(
        "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    ).fetchone()
    return Path(found[0]) if found and found[0] else None


def _batches(table: Table, incoming: Incoming) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([pa.field(column.name, arrow_type(declared_type(column))) for column in table.columns])
    for batch in incoming.batches:
        arrays = [converted(table, column, batch.column(column.name)) for column in table.columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
