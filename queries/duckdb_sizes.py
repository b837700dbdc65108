"""The longest values of a database file, measured once while it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from contract.schema import Column, Mode, SqlType, Table
from queries.govern import DATA_SCHEMA

_SIZES: Final = "__sizes"  # in the main schema, which no generated text names


def write_sizes(connection: duckdb.DuckDBPyConnection, tables: Sequence[Table]) -> None:
    """Keep the bytes of the longest value of each column whose values have sizes of their own."""
    connection.execute(f'CREATE TABLE "{_SIZES}" (name VARCHAR, bytes BIGINT)')
    for table in tables:
        for column in table.columns:
            size = _size(column)
            if size is not None:
                connection.execute(
                    f'INSERT INTO "{_SIZES}" SELECT ?, coalesce(max({size}), 0) FROM "{DATA_SCHEMA}"."{table.name}"',  # noqa: S608
                    [f"{table.name}.{column.name}"],
                )


def read_sizes(connection: duckdb.DuckDBPyConnection) -> Mapping[str, int]:
    """Bytes by ``table.column``."""
    return dict(connection.execute(f'SELECT name, bytes FROM "{_SIZES}"').fetchall())  # noqa: S608


def _size(column: Column) -> str | None:
    name = f'"{column.name}"'
    if column.mode is Mode.REPEATED or column.type is SqlType.STRUCT:
        return f"strlen(CAST({name} AS VARCHAR))"
    if column.type is SqlType.STRING:
        return f"strlen({name})"
    return f"octet_length({name})" if column.type is SqlType.BYTES else None
