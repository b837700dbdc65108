"""A result as the bytes that are sent, made batch by batch: never more of it in memory than one batch.

A media type has one form here. JSON has the same bytes, whatever the batches;
Arrow is an IPC stream of record batches without compression, as they come.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.schema import ResultColumn
from queries.arrow_form import arrow_schema
from queries.document import head, tail
from queries.encode import encode_rows

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ROWS_AT_ONCE: Final = 10_000


class ResultWriter(Protocol):
    """Writes one result from the batches of its rows; every piece may be sent as soon as it is there."""

    def start(self) -> bytes:
        """What comes before any row, as far as it is there."""
        ...

    def add(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """The rows of a batch of ``arrow_schema``. Raises ``ResultInvalid``."""
        ...

    def finish(self, *, row_count: int, truncated: bool) -> bytes:
        """What comes behind the last row."""
        ...


def result_writer(media_type: str, results: Sequence[ResultColumn], as_of: str) -> ResultWriter:
    """The writer of a media type; ``as_of`` is RFC 3339 UTC. Raises ``ValueError`` for one that there is not."""
    if media_type == RESULT_MEDIA_TYPE:
        return JsonWriter(results, as_of)
    if media_type == ARROW_MEDIA_TYPE:
        return ArrowWriter(results)
    raise ValueError("there is no such form of a result")


class JsonWriter:
    """The result document."""

    def __init__(self, results: Sequence[ResultColumn], as_of: str) -> None:
        self._results = tuple(results)
        self._as_of = as_of
        self._any = False

    def start(self) -> bytes:
        return head(self._results)

    def add(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        for first in range(0, batch.num_rows, _ROWS_AT_ONCE):
            rows = encode_rows(self._results, batch.slice(first, _ROWS_AT_ONCE))
            yield b"," + rows if self._any else rows
            self._any = True

    def finish(self, *, row_count: int, truncated: bool) -> bytes:
        return tail(row_count, truncated, self._as_of)


class ArrowWriter:
    """An Arrow IPC stream. Its bytes do not say whether it is whole: size, digest and row count beside it do."""

    def __init__(self, results: Sequence[ResultColumn]) -> None:
        self._pieces = _Pieces()
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._pieces, mode="w"), arrow_schema(results))

    def start(self) -> bytes:
        return self._pieces.take()

    def add(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        self._stream.write_batch(batch)
        yield self._pieces.take()

    def finish(self, *, row_count: int, truncated: bool) -> bytes:
        self._stream.close()
        return self._pieces.take()


class _Pieces(io.RawIOBase):
    """A file that keeps what was written to it until it is taken."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        piece = bytes(data)
        self._written.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        whole, self._written = b"".join(self._written), []
        return whole
