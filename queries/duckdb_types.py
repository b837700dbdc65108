"""DuckDB's and Arrow's names of GoogleSQL's types, nested ones included."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from contract.schema import SqlType
from queries.typed import Type

S = SqlType
TYPES: Final[dict[SqlType, str]] = {
    S.STRING: "VARCHAR",
    S.INT64: "BIGINT",
    S.FLOAT64: "DOUBLE",
    S.NUMERIC: "DECIMAL(38, 9)",
    S.BOOL: "BOOLEAN",
    S.DATE: "DATE",
    S.DATETIME: "TIMESTAMP",
    S.TIME: "TIME",
    S.TIMESTAMP: "TIMESTAMPTZ",
    S.BYTES: "BLOB",
}
ARROW: Final[dict[SqlType, pa.DataType]] = {
    S.STRING: pa.string(),
    S.INT64: pa.int64(),
    S.FLOAT64: pa.float64(),
    S.NUMERIC: pa.decimal128(38, 9),
    S.BOOL: pa.bool_(),
    S.DATE: pa.date32(),
    S.DATETIME: pa.timestamp("us"),
    S.TIME: pa.time64("us"),
    S.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    S.BYTES: pa.binary(),
}


def duckdb_type(kind: Type) -> str:
    """DuckDB's name of a type; the name of a field is a slug, so quoting it is enough."""
    if kind.name is None:
        raise TypeError("an untyped NULL has no DuckDB type")
    if kind.name is S.STRUCT:
        fields = ", ".join(f'"{name}" {duckdb_type(field)}' for name, field in kind.fields)
        name = f"STRUCT({fields})"
    else:
        name = TYPES[kind.name]
    return f"{name}[]" if kind.array else name


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type that holds every value of a type."""
    if kind.name is None:
        raise TypeError("an untyped NULL has no Arrow type")
    if kind.name is S.STRUCT:
        held: pa.DataType = pa.struct([pa.field(name, arrow_type(field)) for name, field in kind.fields])
    else:
        held = ARROW[kind.name]
    return pa.list_(held) if kind.array else held
