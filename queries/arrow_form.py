"""The Arrow form of a result: one schema for what is declared, whatever engine made the batches.

NUMERIC is decimal128(38, 9), TIMESTAMP microseconds in UTC, an ARRAY a list that is never NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.schema import Mode, ResultColumn, SqlType, StructField
from queries.encode import ResultInvalid

ARROW: Final[dict[SqlType, pa.DataType]] = {
    SqlType.STRING: pa.string(),
    SqlType.INT64: pa.int64(),
    SqlType.FLOAT64: pa.float64(),
    SqlType.NUMERIC: pa.decimal128(38, 9),
    SqlType.BOOL: pa.bool_(),
    SqlType.DATE: pa.date32(),
    SqlType.DATETIME: pa.timestamp("us"),
    SqlType.TIME: pa.time64("us"),
    SqlType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    SqlType.BYTES: pa.binary(),
}
_DATED: Final = (SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP)
Declared = ResultColumn | StructField


def arrow_schema(results: Sequence[ResultColumn]) -> pa.Schema:
    """The schema of every batch of a result with these columns."""
    return pa.schema([_field(column) for column in results])


def conform(schema: pa.Schema, results: Sequence[ResultColumn], batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` in the form of ``schema``, which is ``arrow_schema(results)``.

    Raises ``ResultInvalid`` where a value has no form in a result: NULL in a REQUIRED column,
    a NULL element, a year beyond 1 to 9999, or another type. The columns' names and order are
    the caller's to check, once for all batches.
    """
    arrays = [_conform(column, array) for column, array in zip(results, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _field(column: Declared) -> pa.Field[Any]:
    kind = ARROW[column.type] if not column.fields else pa.struct([_field(field) for field in column.fields])
    if column.mode is Mode.REPEATED:
        return pa.field(column.name, pa.list_(pa.field("item", kind, nullable=False)), nullable=False)
    return pa.field(column.name, kind, nullable=column.mode is not Mode.REQUIRED)


def _conform(column: Declared, array: Any) -> Any:
    if column.mode is Mode.REPEATED:
        return _list(column, array)
    if column.mode is Mode.REQUIRED and array.null_count:
        raise ResultInvalid("a required result column holds NULL")
    return _value(column, array)


def _list(column: Declared, array: Any) -> Any:
    """A NULL array is an empty one; a NULL element has no form in a result."""
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise ResultInvalid("a result column is repeated unlike its declaration")
    flat = array.flatten()
    if flat.null_count:
        raise ResultInvalid("a repeated result column holds a NULL element")
    lengths: Any = pc.fill_null(pc.list_value_length(array), pa.scalar(0, pa.int32()))
    ends: Any = pc.cumulative_sum_checked(pc.cast(lengths, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, _value(column, flat), type=_field(column).type)


def _value(column: Declared, array: Any) -> Any:
    if column.fields:
        return _struct(column, array)
    wanted = ARROW[column.type]
    if column.type in _DATED:
        _check_years(array)
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowException:
        raise ResultInvalid("a result column has another type than declared") from None


def _struct(column: Declared, array: Any) -> Any:
    if not pa.types.is_struct(array.type) or array.type.num_fields != len(column.fields):
        raise ResultInvalid("a result column has another type than declared")
    # ``flatten`` gives a NULL struct's fields as NULL; ``field`` would show what lies below it.
    parts = [_conform(field, part) for field, part in zip(column.fields, array.flatten(), strict=True)]
    fields = [_field(field) for field in column.fields]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)


def _check_years(array: Any) -> None:
    bounds = pc.min_max(pc.year(array))
    if bounds["min"].as_py() is not None and not 1 <= bounds["min"].as_py() <= bounds["max"].as_py() <= 9_999:
        raise ResultInvalid("a date is beyond the years 1 to 9999")
