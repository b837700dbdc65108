"""What a writer and its clients send each other: cut as it was sent, and read as nothing but that."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import frames as module
from evidence.entry import is_plain, plain
from evidence.frames import LOST, Frames, InvalidFrame, framed, read_reply, read_request, reply, request
from tests.evidence.evidence_builders import make_row, open_ledger


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_frames_are_cut_the_same_wherever_the_network_cuts(bodies: list[bytes], data: st.DataObject) -> None:
    sent, frames, found = b"".join(map(framed, bodies)), Frames(), []
    while sent:
        cut = data.draw(st.integers(1, len(sent)))
        found += frames.feed(sent[:cut])
        sent = sent[cut:]
    assert found == bodies


def test_rows_and_receipts_survive_their_frames(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    rows = [make_row(number) for number in range(9)]
    receipts = ledger.append_many(rows)
    told = [str(plain(row)["recorded_at"]) for row in rows]
    assert read_reply(reply(receipts), told) == receipts
    key, members = read_request(request("aa", [plain(row) for row in rows]))
    assert (key, [one["request_id"] for one in members]) == ("aa", [f"req-{number}" for number in range(9)])
    ledger.close()


@pytest.mark.parametrize("cut", [0, 1, 2, 30, 100, -1])
def test_a_reply_that_is_cut_or_of_other_rows_gives_no_receipt(tmp_path: Path, cut: int) -> None:
    ledger = open_ledger(tmp_path)
    told = reply(ledger.append_many([make_row(0), make_row(1)]))
    ledger.close()
    with pytest.raises(InvalidFrame):
        read_reply(told[:cut], ["t", "t"])
    with pytest.raises(InvalidFrame):
        read_reply(told, ["t"])


def test_rows_that_were_not_written_have_no_receipt() -> None:
    for told in (LOST, b"", b"\x02", b"\x00\x01"):
        with pytest.raises(InvalidFrame, match="not written"):
            read_reply(told, ["t"])


def test_a_frame_that_is_too_long_is_refused_before_any_of_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FRAME_BYTES", 8)
    assert Frames().feed(framed(bytes(8))) == [bytes(8)]
    for length in (9, 2**32 - 1):
        with pytest.raises(InvalidFrame, match="too long"):
            Frames().feed(struct.pack(">I", length))


ROW = orjson.loads(orjson.dumps(plain(make_row())))  # as it arrives
OTHER_ROWS: dict[str, Any] = {
    "a text": "row",
    "a list": [],
    "nothing": {},
    "a member less": {name: value for name, value in ROW.items() if name != "reason"},
    "a member more": ROW | {"more": 1},
    "a fraction": ROW | {"rows_returned": 1.5},
    "true": ROW | {"rows_returned": True},
    "a list in a cell": ROW | {"reason": ["x"]},
    "no list of events": ROW | {"event_ids": "e"},
    "an event that is none": ROW | {"event_ids": ["e", 1]},
}


@pytest.mark.parametrize("row", OTHER_ROWS.values(), ids=OTHER_ROWS)
def test_a_row_of_another_form_is_none(row: Any) -> None:
    assert is_plain(ROW)
    assert not is_plain(row)
    with pytest.raises(InvalidFrame, match="no key and rows"):
        read_request(orjson.dumps(["aa", [ROW, row]]))


@pytest.mark.parametrize(
    "asked",
    [
        b"",
        b"{",
        b"7",
        b"[]",
        b'["aa"]',
        b'["aa", [], 1]',
        b'["aa", []]',
        b'["aa", {}]',
        b'["aa", "rows"]',
        b'["aa", 7]',
        b'["aa", true]',
    ],
)
def test_a_request_is_a_key_and_rows(asked: bytes) -> None:
    with pytest.raises(InvalidFrame, match="no key and rows"):
        read_request(asked)


@pytest.mark.parametrize("key", [None, 7, ["aa"]])
def test_the_key_of_a_request_is_a_text(key: object) -> None:
    with pytest.raises(InvalidFrame, match="no key and rows"):
        read_request(orjson.dumps([key, [ROW]]))
