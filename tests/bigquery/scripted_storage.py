"""A Storage Read service on loopback that streams one Arrow table, over real gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types

_SERVICE = "/google.cloud.bigquery.storage.v1.BigQueryRead/"
_STREAM = "projects/billing/locations/eu/sessions/one/streams/only"


class ScriptedStorage(grpc.GenericRpcHandler):
    """Streams ``table`` in batches of ``rows``; ``pause`` seconds lie between two. ``sessions`` is what was asked."""

    def __init__(self, table: pa.Table, *, rows: int = 2, pause: float = 0.0, keep: int | None = None) -> None:
        self.table = table
        self.sessions: list[Any] = []
        self.left = threading.Event()
        self._rows = rows
        self._pause = pause
        self._keep = keep
        self._threads = ThreadPoolExecutor(4)
        self._server = grpc.server(self._threads, handlers=(self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> ScriptedStorage:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()
        self._threads.shutdown()

    def service(self, details: Any) -> Any:
        if details.method == f"{_SERVICE}CreateReadSession":
            return grpc.unary_unary_rpc_method_handler(self._create)
        if details.method == f"{_SERVICE}ReadRows":
            return grpc.unary_stream_rpc_method_handler(self._read)
        return None

    def _create(self, request: bytes, context: Any) -> bytes:
        asked = types.CreateReadSessionRequest.deserialize(request)
        self.sessions.append(asked)
        session = types.ReadSession(
            name="projects/billing/locations/eu/sessions/one",
            table=asked.read_session.table,
            data_format=types.DataFormat.ARROW,
            arrow_schema=types.ArrowSchema(serialized_schema=self.table.schema.serialize().to_pybytes()),
            streams=[types.ReadStream(name=_STREAM)] if self.table.num_rows else [],
        )
        return bytes(types.ReadSession.serialize(session))

    def _read(self, request: bytes, context: Any) -> Iterator[bytes]:
        asked = types.ReadRowsRequest.deserialize(request)
        context.add_callback(self.left.set)
        batches = self.table.slice(asked.offset).to_batches(max_chunksize=self._rows)
        for batch in batches[: self._keep]:
            if not context.is_active():
                return
            told = types.ReadRowsResponse(
                row_count=batch.num_rows,
                arrow_record_batch=types.ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes()),
            )
            yield bytes(types.ReadRowsResponse.serialize(told))
            time.sleep(self._pause)
