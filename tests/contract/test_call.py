"""A call is one JSON object with three members, hashed as it was sent."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.call import MAX_CALL_BYTES, Call, encode_call
from contract.verdict import NotGranted, Reason

CALL: dict[str, Any] = {"dataset": "purification-batches", "capability": "search", "arguments": {"text": "B017"}}


def refused(raw: bytes) -> None:
    with pytest.raises(NotGranted) as stop:
        Call.parse(raw)
    assert stop.value.reason is Reason.CALL_MALFORMED
    assert "B017" not in stop.value.message


def test_a_call_is_hashed_exactly_as_it_was_sent() -> None:
    raw = json.dumps(CALL, indent=2).encode()
    call = Call.parse(raw)
    assert (call.dataset, call.capability, dict(call.arguments)) == tuple(CALL.values())
    assert call.call_hash == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize("member", ["dataset", "capability"])
@pytest.mark.parametrize("name", ["", "Search", "a b", "../x", "a.b", "x" * 65, None, 7, ["search"], {"x": 1}, True])
def test_a_name_that_is_no_slug_is_no_call(member: str, name: Any) -> None:
    refused(json.dumps({**CALL, member: name}).encode())


@pytest.mark.parametrize("arguments", [None, [], "B017", 1, [["text", "B017"]]])
def test_arguments_that_are_no_object_are_no_call(arguments: Any) -> None:
    refused(json.dumps({**CALL, "arguments": arguments}).encode())


@pytest.mark.parametrize("member", sorted(CALL))
def test_a_call_without_a_member_is_none(member: str) -> None:
    refused(json.dumps({name: value for name, value in CALL.items() if name != member}).encode())


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({**CALL, "sql": "SELECT 1"}).encode(),
        json.dumps([CALL]).encode(),
        b"",
        b"{",
        b'{"dataset":"a","dataset":"b","capability":"c","arguments":{}}',
        json.dumps({**CALL, "arguments": {"text": "B017" + "x" * MAX_CALL_BYTES}}).encode(),
        json.dumps(CALL).encode("utf-16"),
    ],
    ids=["a member more", "a list", "nothing", "a half", "a member twice", "too large", "another encoding"],
)
def test_other_bytes_are_no_call(raw: bytes) -> None:
    refused(raw)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3))
def test_what_is_encoded_is_read_back(arguments: dict[str, Any]) -> None:
    call = Call.parse(encode_call("purification-batches", "search", arguments))
    assert dict(call.arguments) == arguments
