"""One governed query as both processes know it: what is executed, within which bounds, in which pieces it is read.

The worker imports this file, so it imports no more than an engine's process needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

VECTOR: Final = 2_048
"""Rows that DuckDB computes at once, and the fewest that it gives at once."""
PIECE_BYTES: Final = 8 * 2**20
"""What one piece of a result holds at most, unless a single row is larger."""
_MOST_ROWS: Final = 20_000
_BATCH_BYTES: Final = 32 * 2**20


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value that is bound with a DuckDB type of its own, where the value alone would not tell it."""

    value: Any
    type: str


@dataclass(frozen=True, slots=True)
class Query:
    """``values`` may hold the mask key, and holds it only where ``text`` binds it."""

    text: str
    values: Mapping[str, Any]
    batch_rows: int
    max_rows: int


def batch_rows(value_bytes: float, columns: int) -> int:
    """Rows to read at once where each of ``columns`` values may have ``value_bytes`` bytes."""
    return int(max(VECTOR, min(_MOST_ROWS, _BATCH_BYTES / max(1.0, value_bytes * columns))))


def execute(cursor: duckdb.DuckDBPyConnection, query: Query) -> pa.RecordBatchReader:
    """Start the query. Raises the engine's errors, whose texts must not leave."""
    values = {
        name: duckdb.Value(value.value, duckdb.sqltype(value.type)) if isinstance(value, TypedValue) else value
        for name, value in query.values.items()
    }
    reader: pa.RecordBatchReader = cursor.sql(query.text, params=values).to_arrow_reader(query.batch_rows)
    return reader


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in slices of at most ``PIECE_BYTES``, or of one row."""
    rows = batch.num_rows
    if rows <= 1 or batch.get_total_buffer_size() <= PIECE_BYTES or batch.nbytes <= PIECE_BYTES:
        if rows:
            yield batch
        return
    half = rows // 2
    yield from pieces(batch.slice(0, half))
    yield from pieces(batch.slice(half))
