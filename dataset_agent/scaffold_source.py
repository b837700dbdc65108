"""What ``datasets init`` reads: a Parquet, CSV or DuckDB file, made into a file of the dataset's own folder.

A file is copied as it is where a descriptor can declare its columns by their names. Where it
cannot (a name is no name here, a text stands for NULL, a float is NaN) a Parquet file is
written instead, and what was changed is told.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contract.errors import Category, Component, DatasetAgentError
from contract.schema import Mode, SqlType
from dataset_agent.scaffold_names import column_names, slug_of, table_name
from queries.csv_file import BATCH_ROWS, read_header, text_batches
from queries.csv_values import read_values
from queries.duckdb_sources import base_tables, open_database, quote
from queries.duckdb_types import arrow_type
from queries.source_columns import SourceColumn, arrow_columns, csv_columns, without
from queries.typed import Type

_MOST_TABLES: Final = 20
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_KINDS: Final = {
    ".csv": ".csv",
    ".parquet": ".parquet",
    ".pq": ".parquet",
    ".duckdb": ".duckdb",
    ".ddb": ".duckdb",
    ".db": ".duckdb",
}


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table that is to be declared. ``columns`` have a type; ``notes`` say what was inferred, changed or left out."""

    name: str
    columns: tuple[SourceColumn, ...]
    notes: tuple[str, ...]
    file: str | None = None
    relation: str | None = None
    bigquery: str | None = None


def read_file(path: Path, data: Path, *, tables: Sequence[str], null: Sequence[str]) -> list[SourceTable]:
    """The tables of one file, which is copied or written into ``data``.

    ``tables`` are, of a DuckDB file, those to take (none: all), of another the name it is given.
    Raises ``DatasetAgentError``.
    """
    if path.is_dir():
        raise _fault(f"{path} is a folder: name a file in it, --from for each")
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise _fault(f"{path.name} is none of {', '.join(_KINDS)}: convert it, or rename it to what it is")
    if not path.is_file():
        raise _fault(f"{path} is not there, or no file")
    if kind == ".duckdb":
        return _database(path, data, tables)
    if len(tables) > 1:
        raise _fault(f"{path.name} holds one table: give one --table, its name")
    name = table_name(tables[0] if tables else path.stem)
    return [_csv(path, data, name, null) if kind == ".csv" else _parquet(path, data, name)]


def _csv(path: Path, data: Path, name: str, null: Sequence[str]) -> SourceTable:
    found = csv_columns(path, path.name, null)
    names = column_names(column.name for column in found)
    columns, notes = _named(found, names)
    if all(_NUMBER.fullmatch(column.name) for column in found):
        notes += ("its first line holds numbers and no names; has the file a header?",)
    if not null and all(old == new for old, new in names.items()):
        shutil.copyfile(path, data / f"{name}.csv")
        return SourceTable(name, columns, notes, file=f"data/{name}.csv")
    kinds = {column.name: column.type for column in found}

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in text_batches(path, read_header(path, path.name), path.name):
            read = [read_values(kinds[old] or SqlType.STRING, without(batch.column(old), null)).values for old in names]
            yield pa.RecordBatch.from_arrays(read, schema=schema)

    schema = pa.schema([pa.field(column.name, arrow_type(Type(column.type))) for column in columns])
    _write(data / f"{name}.parquet", schema, batches())
    why = f"{', '.join(null)} became NULL; " if null else ""
    return SourceTable(name, columns, (*notes, f"{why}written as data/{name}.parquet"), file=f"data/{name}.parquet")


def _parquet(path: Path, data: Path, name: str) -> SourceTable:
    try:
        with pq.ParquetFile(path) as file:
            return _arrow(
                name,
                file.schema_arrow,
                lambda columns: file.iter_batches(BATCH_ROWS, columns=list(columns)),
                data,
                lambda: _copied(path, data / f"{name}.parquet"),
            )
    except (pa.ArrowException, OSError) as error:
        raise _fault(f"{path.name} cannot be read as Parquet ({type(error).__name__})") from error


def _database(path: Path, data: Path, tables: Sequence[str]) -> list[SourceTable]:
    file = f"{slug_of(path.stem, 'data')}.duckdb"
    made = []
    with open_database(path, path.name) as connection:
        known = base_tables(connection)
        wanted = list(tables) or known
        if unknown := [name for name in wanted if name not in known]:
            raise _fault(
                f"{path.name} has no base table {unknown[0]}; it has {', '.join(known[:_MOST_TABLES]) or 'none'}"
            )
        if not 1 <= len(wanted) <= _MOST_TABLES:
            raise _fault(f"{path.name} has {len(wanted)} tables: choose by --table")
        names = column_names(wanted)
        for relation in wanted:
            rows = f"FROM {quote(relation)}"
            schema = connection.sql(f"SELECT * {rows} LIMIT 0").to_arrow_table().schema

            def batches(columns: Sequence[str], rows: str = rows) -> Iterator[pa.RecordBatch]:
                chosen = ", ".join(map(quote, columns))
                yield from connection.sql(f"SELECT {chosen} {rows}").to_arrow_reader(BATCH_ROWS)

            found = _arrow(names[relation], schema, batches, data, lambda: _copied(path, data / file))
            own = found.file == f"data/{file}"
            made.append(replace(found, relation=relation if own and relation != found.name else None))
    return made


def _copied(path: Path, target: Path) -> str:
    if not target.exists():
        shutil.copyfile(path, target)
    return f"data/{target.name}"


def _arrow(
    name: str,
    schema: pa.Schema,
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]],
    data: Path,
    copy: Callable[[], str],
) -> SourceTable:
    """A table with types of its own: as it is, or with other names and without NaN."""
    found = arrow_columns(schema)
    kept = [column for column in found if column.type is not None]
    if not kept:
        raise _fault(f"table {name} has no column of a type that can be declared")
    names = column_names(column.name for column in kept)
    columns, notes = _named(kept, names)
    notes += tuple(f"{column.name}: left out: {column.why}" for column in found if column.type is None)
    floats = [column.name for column in kept if column.type is SqlType.FLOAT64 and column.mode is not Mode.REPEATED]
    endless = _endless(floats, batches)
    if not endless and all(old == new for old, new in names.items()):
        return SourceTable(name, columns, notes, file=copy())
    stored = pa.schema([pa.field(names[column.name], schema.field(column.name).type) for column in kept])

    def cleaned() -> Iterator[pa.RecordBatch]:
        for batch in batches([column.name for column in kept]):
            arrays = [_finite(batch.column(c.name)) if c.name in endless else batch.column(c.name) for c in kept]
            yield pa.RecordBatch.from_arrays(arrays, schema=stored)

    _write(data / f"{name}.parquet", stored, cleaned())
    notes += tuple(f"{names[column]}: NaN and infinities became NULL" for column in endless)
    return SourceTable(name, columns, (*notes, f"written as data/{name}.parquet"), file=f"data/{name}.parquet")


def _endless(columns: Sequence[str], batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]) -> list[str]:
    """The columns of floats that hold one that is not finite."""
    found: set[str] = set()
    for batch in batches(columns) if columns else ():
        found.update(
            name
            for name in columns
            if name not in found and not pc.all(pc.is_finite(batch.column(name)), min_count=0).as_py()
        )
    return [name for name in columns if name in found]


def _finite(array: Any) -> Any:
    return pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))


def _named(found: Sequence[SourceColumn], names: dict[str, str]) -> tuple[tuple[SourceColumn, ...], tuple[str, ...]]:
    """The columns by their names here, and what is to be said of each."""
    notes = []
    for column in found:
        name = names[column.name]
        said = [f'was "{column.name}"'] if name != column.name else []
        said += [column.why] if column.why else []
        notes += [f"{name}: {'; '.join(said)}"] if said else []
    return tuple(replace(column, name=names[column.name]) for column in found), tuple(notes)


def _write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.datasets.source", message)
