"""CSV files as RFC 4180 writes them: UTF-8, a header, commas, quotes doubled inside quotes.

DuckDB splits the file in its strict mode and is told every option, so nothing is sniffed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from contract.files import path_of
from contract.schema import Column, Mode, SqlType, Table
from queries.csv_values import SPELLINGS, read_values
from queries.errors import DataError

BATCH_ROWS: Final = 65_536
_MAX_LINE: Final = 2**21
_MAX_COLUMNS: Final = 2_000
_LINE: Final = re.compile(r"CSV Error on Line: ([0-9]{1,12})")
_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
_FIELDS: Final = re.compile(r"Expected Number of Columns: ([0-9]{1,6}) Found: ([0-9]{1,6})")


def read_header(path: Path, source: str) -> tuple[str, ...]:
    """The names in the first line. Raises ``DataError`` where it is none that names each column once."""
    csv.field_size_limit(_MAX_LINE)
    try:
        # What is not UTF-8 further below, and read ahead, is told with its own line.
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            lines = _bounded(file, source)
            first = next(lines, "")
            names = next(csv.reader(chain([first], lines), strict=True), None)
            "".join(names or ()).encode()
    except (UnicodeEncodeError, csv.Error) as error:
        raise DataError(source, "line 1: the header is not UTF-8, or its quotes are not closed") from error
    except OSError as error:
        raise DataError(source, f"cannot be read: {error.strerror}") from error
    if not names:
        raise DataError(source, "is empty: its first line must name the columns")
    if len(names) == 1 and (other := _separated_by(first, names[0])):
        raise DataError(
            source,
            f"line 1: looks as if {other} separate the fields: separate them by commas, write 1.50 for 1,50, "
            "or put the name of an only column in quotes",
        )
    if len(names) > _MAX_COLUMNS:
        raise DataError(source, f"line 1: more than {_MAX_COLUMNS} columns; are they separated by commas?")
    if any(not name for name in names):
        raise DataError(source, f"line 1: column {names.index('') + 1} has no name; name it in the header")
    if len(set(names)) != len(names):
        twice = next(n for n, name in enumerate(names) if name in names[:n])
        raise DataError(source, f"line 1: column {twice + 1} has the name of another; give it its own")
    return tuple(names)


def _separated_by(line: str, name: str) -> str | None:
    """What seems to part the names of a header that has no comma; ``None`` where it is in quotes, or one name."""
    if line.startswith('"'):
        return None
    for mark, said in _SEPARATORS.items():
        parts = [part.strip(' "') for part in name.split(mark)]
        if len(parts) > 1 and all(parts) and len(set(parts)) == len(parts):
            return said
    return None


def _bounded(file: Any, source: str) -> Iterator[str]:
    while line := file.readline(_MAX_LINE + 1):
        if len(line) > _MAX_LINE:
            raise DataError(source, "line 1: the header is endless; is this a CSV file?")
        yield line


def text_batches(path: Path, header: tuple[str, ...], source: str) -> Iterator[pa.RecordBatch]:
    """Every row below the header, each field as text. Raises ``DataError`` with the line of the first fault."""
    if set("*?[") & set(str(path)):
        raise DataError(source, "the path holds one of * ? [, which would be read as a pattern: rename it")
    columns = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(len(header)))
    query = (
        f"SELECT * FROM read_csv($path, columns={{{columns}}}, header=true, auto_detect=false, delim=',', quote='\"', "  # noqa: S608
        "escape='\"', nullstr='', allow_quoted_nulls=false, strict_mode=true, null_padding=false, "
        f"ignore_errors=false, compression='none', encoding='utf-8', max_line_size={_MAX_LINE})"
    )
    with duckdb.connect(config={"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}) as con:
        con.execute("SET enable_progress_bar=false")  # it would go to standard output
        try:
            for batch in con.sql(query, params={"path": str(path)}).to_arrow_reader(BATCH_ROWS):
                yield batch.rename_columns(list(header))
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise DataError(source, _told(str(error))) from None


def _told(message: str) -> str:
    """What is wrong in words of ours: the engine's repeat the line."""
    line, fields = _LINE.search(message), _FIELDS.search(message)
    place = f"line {line[1]}: " if line else ""
    if fields:
        return f"{place}{fields[2]} fields where the header has {fields[1]}; put a field that holds a comma in quotes"
    if "Invalid unicode" in message:
        return f"{place}not UTF-8; store the file in that encoding"
    if "Maximum line size" in message:
        return f"{place}a line is longer than {_MAX_LINE:,} bytes; is a quote left open?"
    if "unterminated quote" in message:
        return f'{place}a quote is not closed, or not doubled inside quotes; write "" for "'
    return f"{place}cannot be read as CSV: separate fields by commas, and end every line alike"


def csv_batches(file: FileIO, table: Table) -> Generator[pa.RecordBatch]:
    """The declared columns of a CSV file, typed as declared. Rows count from 1 below the header.

    Raises ``DataError`` that names the column and the row of a value that does not fit, never the value.
    """
    header = read_header(path_of(file), table.source)
    _check_declared(table, header)
    done = 0
    for batch in text_batches(path_of(file), header, table.source):
        arrays = [_typed(table, column, batch.column(column.name), done) for column in table.columns]
        yield pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])
        done += batch.num_rows


def _check_declared(table: Table, header: tuple[str, ...]) -> None:
    for column in table.columns:
        where = f"{table.name}.{column.name}"
        if column.type is SqlType.STRUCT or column.mode is Mode.REPEATED:
            raise DataError(table.source, f"{where}: a CSV file holds no STRUCT and no list; store Parquet instead")
        if column.name not in header:
            alike = next((name for name in header if name.strip().lower() == column.name), None)
            advice = "; the header spells it in another way" if alike else ""
            raise DataError(table.source, f"{where} is declared and not in the header{advice}")


def _typed(table: Table, column: Column, text: Any, done: int) -> Any:
    read = read_values(column.type, text)
    where = f"{table.name}.{column.name}"
    if read.wrong is not None:
        row, said = done + read.wrong + 1, SPELLINGS[column.type].said
        raise DataError(
            table.source,
            f"{where}: row {row:,} does not hold {column.type.value} ({said}); correct it, or declare STRING",
        )
    if column.mode is Mode.REQUIRED and read.values.null_count:
        row = done + read.values.is_null().index(True).as_py() + 1
        raise DataError(table.source, f"{where} is REQUIRED and row {row:,} is empty; declare it NULLABLE")
    return read.values
