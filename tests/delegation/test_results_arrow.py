"""An Arrow stream of an agent that lies about its form: refused before it is inflated, allocated or believed."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.call import ARROW_MEDIA_TYPE
from contract.canonical import sha256_hex
from contract.result import StoredResult
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from delegation.results_arrow import MAX_METADATA
from delegation.results_file import check_form
from queries.arrow_form import arrow_schema
from queries.result_writer import ArrowWriter

COLUMNS = tuple(
    ResultColumn.model_validate(column)
    for column in (
        {"name": "x", "type": "INT64"},
        {"name": "word", "type": "STRING"},
        {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    )
)
SCHEMA = arrow_schema(COLUMNS)
ROWS = 1_000


def batch(rows: int = ROWS) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows)), pa.array(["w" * 40] * rows), [["a", "b"]] * rows], schema=SCHEMA)


def stream(schema: pa.Schema = SCHEMA, *, rows: int = ROWS, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_batch(batch(rows).replace_schema_metadata(schema.metadata).cast(schema))
    return sink.getvalue()


def judged(folder: Path, body: bytes, rows: int = ROWS) -> NotGranted | None:
    told = StoredResult(
        "task-1", "", ARROW_MEDIA_TYPE, sha256_hex(body), len(body), rows, False, "2026-01-01T00:00:00Z", 0.0
    )
    with (folder / "rows").open("w+b") as file:
        file.write(body)
        try:
            check_form(file, told, COLUMNS)
        except NotGranted as refused:
            return refused
    return None


def frame(metadata: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<II", 0xFFFFFFFF, len(metadata)) + metadata + body


START = len(stream(rows=0)) - len(stream(rows=0)[stream(rows=0).index(b"\xff\xff\xff\xff", 8) :])
END = frame(b"")


def dictionary() -> bytes:
    sink = io.BytesIO()
    encoded = pa.record_batch({"x": pa.array(["a", "b"]).dictionary_encode()})
    with pa.ipc.new_stream(sink, encoded.schema) as out:
        out.write_batch(encoded)
    whole = sink.getvalue()
    return stream(rows=0)[:START] + whole[whole.index(b"\xff\xff\xff\xff", 8) :]


def huge_body() -> bytes:
    """A batch that says it has some exabytes."""
    whole = bytearray(stream())
    at = whole.index(struct.pack("<q", len(whole) - START - 8 - struct.unpack_from("<I", whole, START + 4)[0] - 8))
    struct.pack_into("<q", whole, at, 2**60)
    return bytes(whole)


def reordered() -> bytes:
    sink = io.BytesIO()
    other = batch().select(["word", "x", "tags"])
    with pa.ipc.new_stream(sink, other.schema) as out:
        out.write_batch(other)
    return sink.getvalue()


EXTENSION = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": b"\x80\x04N."}
LIES: dict[str, Callable[[], bytes]] = {
    "compressed with zstd": lambda: stream(compression="zstd"),
    "compressed with lz4": lambda: stream(compression="lz4"),
    "a dictionary": dictionary,
    "a body of exabytes": huge_body,
    "metadata of gigabytes": lambda: stream()[:START] + struct.pack("<II", 0xFFFFFFFF, 2**31) + b"x" * 64,
    "metadata beyond the bound": lambda: frame(b"\0" * (MAX_METADATA + 8)) + END,
    "metadata of the schema": lambda: stream(SCHEMA.with_metadata({b"pandas": b"{}"})),
    "metadata of a column": lambda: stream(SCHEMA.set(0, SCHEMA.field(0).with_metadata(EXTENSION))),
    "bytes behind the end": lambda: stream() + b"more",
    "a second stream": lambda: stream() + stream(),
    "a second schema": lambda: stream()[:START] + stream(),
    "no end": lambda: stream()[:-8],
    "no schema": lambda: stream()[START:],
    "an end alone": lambda: END,
    "the form before 0.15": lambda: stream(use_legacy_format=True),
    "a file, not a stream": lambda: b"ARROW1\0\0" + stream(),
    "columns in another order": reordered,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_stream_of_another_form_is_no_result(tmp_path: Path, lie: str) -> None:
    refused = judged(tmp_path, LIES[lie]())
    assert refused is not None
    assert refused.reason is Reason.REMOTE_PROVENANCE_INVALID


@pytest.mark.parametrize("rows", [0, 1, ROWS])
def test_what_the_product_writes_is_one(tmp_path: Path, rows: int) -> None:
    writer = ArrowWriter(COLUMNS)
    pieces = [
        writer.start(),
        *writer.add(batch(rows)),
        *writer.add(batch(0)),
        writer.finish(row_count=0, truncated=False),
    ]
    assert judged(tmp_path, b"".join(pieces), rows) is None


def test_rows_that_would_inflate_are_not_inflated(tmp_path: Path) -> None:
    sink = io.BytesIO()
    many = pa.record_batch([pa.array([0] * 2_000_000), [""] * 2_000_000, [[]] * 2_000_000], schema=SCHEMA)
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out:
        out.write_batch(many)
    del many
    before, peak = pa.total_allocated_bytes(), pa.default_memory_pool().max_memory()
    assert judged(tmp_path, sink.getvalue(), 2_000_000) is not None
    assert pa.total_allocated_bytes() == before
    assert (pa.default_memory_pool().max_memory() or 0) == peak


def test_a_good_stream_is_judged_without_a_copy_of_its_rows(tmp_path: Path) -> None:
    body = stream(rows=200_000)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        assert judged(tmp_path, body, 200_000) is None
        assert tracemalloc.get_traced_memory()[1] < 2**21 < len(body)
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() == before


WHOLE = stream(rows=20)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_stream_with_other_bytes_is_judged_or_refused_and_never_falls_over(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    changed = bytearray(WHOLE)
    for place, value in changes:
        changed[place] = value
    refused = judged(tmp_path_factory.getbasetemp(), bytes(changed), 20)
    assert refused is None or refused.reason is Reason.REMOTE_PROVENANCE_INVALID
