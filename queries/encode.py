"""Arrow batches to result JSON without loss, the same bytes whatever engine made the batches.

INT64 beyond 2**53-1 and NUMERIC travel as text, dates and times as ISO 8601, TIMESTAMP as
RFC 3339 UTC with microseconds, BYTES as base64, NaN and infinities as text, NULL as null.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from contract.schema import Mode, ResultColumn, SqlType
from queries.typed import Type, declared_type

_SAFE: Final = 2**53 - 1
_ARROW: Final[dict[SqlType, Callable[[pa.DataType], bool]]] = {
    SqlType.STRING: lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    SqlType.INT64: pa.types.is_int64,
    SqlType.FLOAT64: pa.types.is_float64,
    SqlType.NUMERIC: lambda kind: pa.types.is_decimal128(kind) and kind.scale <= 9,
    SqlType.BOOL: pa.types.is_boolean,
    SqlType.DATE: pa.types.is_date32,
    SqlType.DATETIME: lambda kind: kind == pa.timestamp("us"),
    SqlType.TIME: lambda kind: kind == pa.time64("us"),
    SqlType.TIMESTAMP: lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz in ("UTC", "Etc/UTC"),
    SqlType.BYTES: lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
}


class ResultInvalid(Exception):
    """A result unlike its declaration; the message names the rule and no value."""


class ResultTooLarge(Exception):
    """A result with more rows or bytes than allowed."""


def check_schema(results: Sequence[ResultColumn], schema: pa.Schema) -> None:
    """Raise ``ResultInvalid`` unless names, order and types are the declared ones."""
    if schema.names != [column.name for column in results]:
        raise ResultInvalid("the result has other columns than declared")
    for field, column in zip(schema, results, strict=True):
        _check_type(declared_type(column), field.type)


def encode_rows(results: Sequence[ResultColumn], batch: pa.RecordBatch) -> bytes:
    """The rows of a non-empty batch as JSON arrays joined by commas, without outer brackets."""
    columns = []
    for column, array in zip(results, batch.columns, strict=True):
        if column.mode is Mode.REQUIRED and array.null_count:
            raise ResultInvalid("a required result column holds NULL")
        columns.append(_shown(declared_type(column), array))
    return orjson.dumps(list(zip(*columns, strict=True)))[1:-1]


def _check_type(kind: Type, found: Any) -> None:
    if kind.array != (pa.types.is_list(found) or pa.types.is_large_list(found)):
        raise ResultInvalid("a result column is repeated unlike its declaration")
    if kind.array:
        _check_type(kind.element, found.value_type)
    elif kind.name is SqlType.STRUCT:
        if not pa.types.is_struct(found) or [field.name for field in found] != [name for name, _ in kind.fields]:
            raise ResultInvalid("a result column has other fields than declared")
        for (_, inner), field in zip(kind.fields, found, strict=True):
            _check_type(inner, field.type)
    elif kind.name is None or not _ARROW[kind.name](found):
        raise ResultInvalid("a result column has another type than declared")


def _shown(kind: Type, array: Any) -> list[Any]:
    if kind.array:
        return _repeated(kind.element, array)
    if kind.name is SqlType.STRUCT:
        return _structs(kind, array)
    if kind.name is None:
        raise TypeError("a declared column has a type")
    return _values(kind.name, array)


def _structs(kind: Type, array: Any) -> list[dict[str, Any] | None]:
    """Objects with the fields in their order; a NULL STRUCT is null."""
    names = [name for name, _ in kind.fields]
    # ``flatten`` makes the fields of a NULL STRUCT NULL, so that what lies below it is not looked at.
    parts = [_shown(inner, held) for (_, inner), held in zip(kind.fields, array.flatten(), strict=True)]
    rows: list[dict[str, Any] | None] = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    if array.null_count:
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return rows


def _repeated(kind: Type, array: Any) -> list[list[Any]]:
    """A NULL array is an empty one; a NULL element has no form in a result."""
    flat = array.flatten()
    if flat.null_count:
        raise ResultInvalid("a repeated result column holds a NULL element")
    values = _shown(kind, flat)
    out: list[list[Any]] = []
    start = 0
    for length in pc.fill_null(pc.list_value_length(array), 0).to_pylist():
        out.append(values[start : start + length])
        start += length
    return out


def _values(kind: SqlType, array: Any) -> list[Any]:
    match kind:
        case SqlType.INT64:
            return _integers(array)
        case SqlType.FLOAT64:
            return _floats(array)
        case SqlType.NUMERIC:
            return _decimals(array)
        case SqlType.TIMESTAMP:
            return _moments(array, suffix="Z")
        case SqlType.DATETIME:
            return _moments(array, suffix="")
        case SqlType.DATE:
            return _dates(array)
        case SqlType.TIME:
            return list(pc.cast(array, pa.string()).to_pylist())
        case SqlType.BYTES:
            return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    return list(array.to_pylist())


def _integers(array: Any) -> list[Any]:
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    values: list[Any] = array.to_pylist()
    if low is None or (low >= -_SAFE and high <= _SAFE):
        return values
    return [value if value is None or -_SAFE <= value <= _SAFE else str(value) for value in values]


def _floats(array: Any) -> list[Any]:
    values: list[Any] = array.to_pylist()
    if pc.all(pc.is_finite(array), min_count=0).as_py():
        return values
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [value if value is None else names.get(str(value), value) for value in values]


def _decimals(array: Any) -> list[Any]:
    if array.type.scale == 0:
        return list(pc.cast(array, pa.string()).to_pylist())
    text = pc.cast(array, pa.string())
    # pyarrow writes small numbers with an exponent, as 1E-9.
    if pc.any(pc.match_substring(text, "E"), min_count=0).as_py():
        return [None if value is None else _plain(format(value, "f")) for value in array.to_pylist()]
    return list(pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".").to_pylist())


def _plain(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moments(array: Any, *, suffix: str) -> list[Any]:
    _check_years(array)
    naive = pc.cast(array, pa.timestamp("us"))
    text = pc.replace_substring(pc.cast(naive, pa.string()), " ", "T", max_replacements=1)
    return list(pc.binary_join_element_wise(text, suffix, "").to_pylist() if suffix else text.to_pylist())


def _dates(array: Any) -> list[Any]:
    _check_years(array)
    return list(pc.cast(array, pa.string()).to_pylist())


def _check_years(array: Any) -> None:
    bounds = pc.min_max(pc.year(array))
    if bounds["min"].as_py() is not None and not 1 <= bounds["min"].as_py() <= bounds["max"].as_py() <= 9_999:
        raise ResultInvalid("a date is beyond the years 1 to 9999")
