"""Whether Arrow columns hold what a table declares, and the same columns in the types that are stored."""

from __future__ import annotations

import difflib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contract.schema import Column, Mode, SqlType, Table
from queries.duckdb_types import arrow_type, duckdb_type
from queries.errors import DataError
from queries.source_columns import sql_type_of
from queries.typed import Type, declared_type

_MOMENTS = (SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP)


def check_types(table: Table, schema: pa.Schema) -> None:
    """Raise ``DataError`` unless each declared column is there with a type that converts without loss."""
    for column in table.columns:
        index = schema.get_field_index(column.name)
        if index < 0:
            raise DataError(
                table.source, f"{table.name}.{column.name} is declared and not in the file{_alike(column.name, schema)}"
            )
        _check_type(table, f"{table.name}.{column.name}", declared_type(column), schema.field(index).type)


def _check_type(table: Table, where: str, kind: Type, found: pa.DataType) -> None:
    name = "NULL" if kind.name is None else kind.name.value
    if kind.array:
        if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
            raise DataError(table.source, f"{where} is declared REPEATED, the file holds {found}{_instead(found)}")
        _check_type(table, where, kind.element, found.value_type)
    elif kind.name is SqlType.STRUCT:
        if not pa.types.is_struct(found):
            raise DataError(table.source, f"{where} is declared STRUCT, the file holds {found}")
        for field, inner in kind.fields:
            if len(found.get_all_field_indices(field)) != 1:
                raise DataError(table.source, f"{where}.{field} is declared and not in the file")
            _check_type(table, f"{where}.{field}", inner, found.field(field).type)
    elif kind.name is None or not _fits(kind.name, found):
        raise DataError(table.source, f"{where} is declared {name}, the file holds {found}{_instead(found)}")


def _alike(name: str, schema: pa.Schema) -> str:
    found = difflib.get_close_matches(name, [str(other)[:64] for other in schema.names], n=1)
    return f"; is it {found[0]}?" if found else ""


def _instead(found: pa.DataType) -> str:
    """What to declare for what a file holds."""
    fitting = sql_type_of(found)
    return f"; declare {fitting.value}" if fitting is not None else ""


def converted(table: Table, column: Column, array: Any) -> Any:
    """The column in ``arrow_type``. Raises ``DataError`` for a value that does not fit its declaration."""
    where, kind = f"{table.name}.{column.name}", declared_type(column)
    try:
        array.validate(full=True)
        out = array.cast(arrow_type(kind), safe=True)
    except pa.ArrowException:
        raise DataError(table.source, f"{where}: a value does not fit {column.type.value}") from None
    if column.mode is Mode.REQUIRED and out.null_count:
        raise DataError(table.source, f"{where} is REQUIRED and holds NULL; declare it NULLABLE")
    _check_values(table, where, kind, out)
    return out


def _check_values(table: Table, where: str, kind: Type, array: Any) -> None:
    if kind.array:
        elements = array.flatten()
        if elements.null_count:
            raise DataError(table.source, f"{where}: a list holds a NULL element")
        _check_values(table, where, kind.element, elements)
    elif kind.name is SqlType.STRUCT:
        for (field, inner), held in zip(kind.fields, array.flatten(), strict=True):
            _check_values(table, f"{where}.{field}", inner, held)
    elif kind.name is SqlType.FLOAT64 and pc.any(pc.invert(pc.is_finite(array)), min_count=0).as_py():
        # NaN compares and sorts unlike in GoogleSQL, and infinities make NaN.
        raise DataError(table.source, f"{where} holds NaN or an infinity; store NULL instead")
    elif kind.name in _MOMENTS:
        years = pc.min_max(pc.year(array))
        if years["min"].as_py() is not None and not 1 <= years["min"].as_py() <= years["max"].as_py() <= 9_999:
            raise DataError(table.source, f"{where} holds a date beyond the years 1 to 9999")


def _fits(target: SqlType, kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return target is SqlType.STRING and _fits(target, kind.value_type)
    match target:
        case SqlType.STRING:
            return types.is_string(kind) or types.is_large_string(kind)
        case SqlType.INT64:
            return types.is_integer(kind)
        case SqlType.FLOAT64:
            return types.is_float64(kind) or types.is_float32(kind)
        case SqlType.NUMERIC:
            return types.is_decimal(kind) or types.is_integer(kind)
        case SqlType.BOOL:
            return types.is_boolean(kind)
        case SqlType.DATE:
            return types.is_date32(kind)
        case SqlType.TIMESTAMP:
            return types.is_timestamp(kind) and kind.tz is not None
        case SqlType.DATETIME:
            return types.is_timestamp(kind) and kind.tz is None
        case SqlType.TIME:
            return types.is_time(kind)
    return types.is_binary(kind) or types.is_large_binary(kind)


def stored_type(column: Column) -> str:
    """The column's type in ``CREATE TABLE``."""
    name = duckdb_type(declared_type(column))
    return f"{name} NOT NULL" if column.mode is Mode.REQUIRED else name
