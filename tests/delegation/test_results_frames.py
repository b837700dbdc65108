"""A message of an Arrow stream is of the wanted kind, with a body of a length, and no more metadata than there may be."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from contract.call import ARROW_MEDIA_TYPE
from contract.result import StoredResult
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from delegation import results_arrow
from delegation.results_arrow import UnexpectedFrame, _body_of, _Flat, check_frames
from delegation.results_file import check_form
from queries.arrow_form import arrow_schema

SCHEMA, DICTIONARY, BATCH = 1, 2, 3
FIELDS = pa.schema([("x", pa.int64())])


class Message:
    """Metadata with these fields, and nothing below them."""

    def __init__(self, kind: int, body: int) -> None:
        self._fields = {1: kind, 3: body}

    def table(self, at: int) -> int:
        return at

    def field(self, table: int, number: int, form: str) -> int:
        return self._fields[number]

    def has(self, table: int, number: int) -> bool:
        return False

    def below(self, table: int, number: int) -> int:
        return table


def body_of(kind: int, body: int, wanted: int) -> int:
    return _body_of(cast(Any, Message(kind, body)), wanted)


@pytest.mark.parametrize(
    ("kind", "body", "wanted"),
    [(SCHEMA, 0, BATCH), (DICTIONARY, 8, BATCH), (BATCH, 0, SCHEMA), (BATCH, -8, BATCH), (SCHEMA, 8, SCHEMA)],
    ids=["a second schema", "a dictionary", "no schema", "a negative body", "a schema with a body"],
)
def test_another_message_than_is_wanted_is_refused(kind: int, body: int, wanted: int) -> None:
    assert (body_of(SCHEMA, 0, SCHEMA), body_of(BATCH, 8, BATCH)) == (0, 8)
    with pytest.raises(UnexpectedFrame, match="another kind"):
        body_of(kind, body, wanted)


def whole_stream() -> bytes:
    held = io.BytesIO()
    with pa.ipc.new_stream(held, FIELDS) as stream:
        stream.write_batch(pa.record_batch([pa.array([1])], schema=FIELDS))
    return held.getvalue()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda whole: bytes(4) + whole[4:], "without a marker"),
        (lambda whole: b"\xff" * 4 + bytes(4), "no schema"),
        (lambda whole: whole[:-16], "longer than the stream"),
    ],
    ids=["another marker", "an end alone", "a body that is cut off"],
)
def test_a_stream_is_marked_messages_and_an_end(tmp_path: Path, changed: Callable[[bytes], bytes], said: str) -> None:
    body = changed(whole_stream())
    with (tmp_path / "stream").open("w+b") as file:
        file.write(body)
        file.flush()
        with pytest.raises(UnexpectedFrame, match=said):
            check_frames(file, len(body))


def test_metadata_is_read_at_places_that_it_has() -> None:
    empty = struct.pack("<IHHIi", 12, 4, 4, 0, 8)  # a table at 12 without a field, its layout at 4
    flat = _Flat(empty)
    assert (flat.table(0), flat.has(12, 2)) == (12, False)
    with pytest.raises(UnexpectedFrame, match="without content"):
        flat.below(12, 2)
    for at in (-1, 13, 2**40):
        with pytest.raises(UnexpectedFrame, match="beyond the metadata"):
            flat.table(at)


def test_metadata_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = whole_stream()
    with (tmp_path / "stream").open("w+b") as file:
        file.write(whole)
        file.flush()
        check_frames(file, len(whole))
        monkeypatch.setattr(results_arrow, "MAX_METADATA", 64)
        with pytest.raises(UnexpectedFrame, match="too much metadata"):
            check_frames(file, len(whole))


def test_a_stream_of_no_rows_has_the_columns_of_the_card_too(tmp_path: Path) -> None:
    columns = (ResultColumn.model_validate({"name": "x", "type": "INT64"}),)
    told = StoredResult("task-1", "", ARROW_MEDIA_TYPE, "0" * 64, 1, 0, False, "", 0.0)

    def checked(schema: pa.Schema) -> None:
        with (tmp_path / "stream").open("w+b") as file:
            with pa.ipc.new_stream(file, schema):
                pass
            check_form(file, told, columns)

    checked(arrow_schema(columns))
    with pytest.raises(NotGranted) as refused:
        checked(pa.schema([("y", pa.int64())]))
    assert refused.value.reason is Reason.REMOTE_PROVENANCE_INVALID
