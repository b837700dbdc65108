"""The rows of a finished job as Arrow batches: by REST where they are few, by the Storage Read API where many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from google.cloud.bigquery import SchemaField, TableReference
from google.cloud.bigquery.table import RowIterator
from google.cloud.bigquery_storage_v1 import BigQueryReadClient
from google.cloud.bigquery_storage_v1.reader import ReadRowsStream
from google.cloud.bigquery_storage_v1.types import DataFormat, ReadSession

from contract.schema import Mode, ResultColumn, SqlType, StructField
from queries.arrow_form import arrow_schema
from queries.encode import ResultInvalid

PAGE_ROWS: Final = 10_000
_NAMES: Final = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}
Declared = ResultColumn | StructField


def type_name(kind: str) -> str:
    """GoogleSQL's name of a type that BigQuery's API may call by an older one."""
    return _NAMES.get(kind.upper(), kind.upper())


def check_fields(results: Sequence[Declared], found: Sequence[SchemaField]) -> None:
    """Raise ``ResultInvalid`` unless names, order, types and arrays are the declared ones."""
    if [field.name for field in found] != [column.name for column in results]:
        raise ResultInvalid("the result has other columns than declared")
    for column, field in zip(results, found, strict=True):
        if (column.mode is Mode.REPEATED) != (field.mode == Mode.REPEATED):
            raise ResultInvalid("a result column is repeated unlike its declaration")
        if type_name(field.field_type) != column.type:
            raise ResultInvalid("a result column has another type than declared")
        if column.type is SqlType.STRUCT:
            check_fields(column.fields, field.fields)


def pages(results: Sequence[ResultColumn], rows: RowIterator) -> Iterator[pa.RecordBatch]:
    """The rows that REST gives, page by page. Raises ``ResultInvalid``."""
    schema = arrow_schema(results)
    for page in rows.pages:
        held = [row.values() for row in page]
        columns: list[Sequence[Any]] = list(zip(*held, strict=True)) if held else [()] * len(schema)
        try:
            arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise ResultInvalid("a result column holds a value that its type has no form for") from None
        # No column promises more than its rows: what is NULL where none may be is the encoder's to say.
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names)


def open_stream(
    client: BigQueryReadClient, table: TableReference, *, project: str, timeout: float
) -> tuple[ReadRowsStream, ReadSession] | None:
    """One stream, so that the rows keep their order; ``None`` of a table without rows."""
    session = client.create_read_session(
        parent=f"projects/{project}",
        read_session=ReadSession(table=table.to_bqstorage(), data_format=DataFormat.ARROW),
        max_stream_count=1,
        timeout=timeout,
    )
    if not session.streams:
        return None
    return client.read_rows(session.streams[0].name, timeout=timeout), session


def blocks(stream: ReadRowsStream, session: ReadSession) -> Iterator[pa.RecordBatch]:
    """The record batches of a stream, as BigQuery made them."""
    schema = pa.ipc.read_schema(pa.py_buffer(session.arrow_schema.serialized_schema))
    for message in stream:
        yield pa.ipc.read_record_batch(pa.py_buffer(message.arrow_record_batch.serialized_record_batch), schema)
