"""A call is one JSON object with three members, hashed as it was sent."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.call import MAX_CALL_BYTES, Call, completed, encode_call, parse_follow_up
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


HALF = Call.parse(b'{"dataset": "d", "capability": "c", "arguments": {"b": 1.0}}')


def follow(body: Any, half: Call | None = HALF) -> Call:
    return parse_follow_up(json.dumps(body).encode(), task="t-1", half=half)


def test_what_completes_a_call_makes_the_whole_in_its_one_form() -> None:
    whole = follow({"task": "t-1", "arguments": {"a": "x"}})
    assert whole.raw == b'{"arguments":{"a":"x","b":1},"capability":"c","dataset":"d"}'
    assert whole.call_hash == hashlib.sha256(whole.raw).hexdigest()


def test_a_whole_call_in_a_task_is_hashed_as_it_was_sent() -> None:
    raw = json.dumps(CALL, indent=2).encode()
    assert parse_follow_up(raw, task="t-1", half=None).raw == raw


@pytest.mark.parametrize(
    ("body", "half", "reason"),
    [
        ({"task": "t-2", "arguments": {"a": 1}}, HALF, Reason.CALL_MALFORMED),
        ({"task": "t-1", "arguments": [1]}, HALF, Reason.CALL_MALFORMED),
        ({"task": "t-1", "arguments": {"a": 1}}, None, Reason.CALL_MALFORMED),
        ({"task": "t-1", "arguments": {"a": 2**60}}, HALF, Reason.CALL_MALFORMED),
        ({"arguments": {"a": 1}}, HALF, Reason.CALL_MALFORMED),
        ({"task": "t-1", "arguments": {"a": 1}, "x": 1}, HALF, Reason.CALL_MALFORMED),
        ({"task": "t-1", "arguments": {"b": 2}}, HALF, Reason.ARGUMENTS_INVALID),
    ],
    ids=["another task", "no object", "nothing to complete", "no canonical form", "no task", "more", "given before"],
)
def test_a_completion_of_another_form_is_none(body: Any, half: Call | None, reason: Reason) -> None:
    with pytest.raises(NotGranted) as stop:
        follow(body, half)
    assert stop.value.reason is reason


def test_what_completes_a_call_is_no_call_outside_its_task() -> None:
    refused(json.dumps({"task": "t-1", "arguments": {"a": "B017"}}).encode())


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(-9, 9)), st.sets(st.sampled_from("abcdef")))
def test_a_call_that_is_completed_is_the_same_whichever_part_came_first(
    given_: dict[str, int], first: set[str]
) -> None:
    one = {name: value for name, value in given_.items() if name in first}
    other = {name: value for name, value in given_.items() if name not in first}
    forth = completed(Call.parse(encode_call("d", "c", one)), other)
    back = completed(Call.parse(encode_call("d", "c", other)), one)
    assert (forth.raw, dict(forth.arguments)) == (back.raw, given_)
