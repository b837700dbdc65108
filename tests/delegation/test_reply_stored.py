"""A reply that describes a result which is fetched is read as strictly as one that brings it."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types.a2a_pb2 import Part, SendMessageResponse, Task
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.extension import RESULT_KEY
from contract.result import StoredResult
from contract.verdict import NotGranted, Reason
from delegation.reply import Outcome, Reply
from delegation.reply_reader import from_response
from delegation.sending import Verified
from remote_agent.hop import _supplied
from tests.root_agent.scripted_remote import completed

TOLD = {
    "sha256": "ab" * 32,
    "size": 2_000_000,
    "row_count": 40_000,
    "truncated": False,
    "as_of": "2026-08-31T00:00:00.000000Z",
    "expires_at": "2026-08-31T00:15:00.000000Z",
}
URL = "https://agent.example/results/task-1"


def task(told: Any = TOLD, *, media_type: str = ARROW_MEDIA_TYPE, url: str = URL) -> Task:
    made = completed(b"{}", {"payload": "x"})
    made.id = "task-1"
    part = Part(url=url, media_type=media_type, metadata=ParseDict({RESULT_KEY: told}, Struct()))
    del made.artifacts[0].parts[:]
    made.artifacts[0].parts.append(part)
    return made


def read(made: Task) -> Reply:
    return from_response(SendMessageResponse(task=made))


@pytest.mark.parametrize("media_type", [ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE])
def test_what_is_told_is_read_as_it_stands(media_type: str) -> None:
    reply = read(task(media_type=media_type))
    assert (reply.outcome, reply.body) == (Outcome.COMPLETED, b"")
    assert reply.stored == StoredResult(
        "task-1", URL, media_type, "ab" * 32, 2_000_000, 40_000, False, TOLD["as_of"], 1_788_135_300.0
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": "AB" * 32},
        {"sha256": "ab" * 31},
        {"sha256": 1},
        {"size": -1},
        {"size": 1.5},
        {"size": "2000000"},
        {"size": True},
        {"row_count": 2**53},
        {"row_count": None},
        {"truncated": "false"},
        {"truncated": 0},
        {"as_of": "yesterday"},
        {"expires_at": "2026-13-01T00:00:00Z"},
        {"expires_at": 5},
        {"more": 1},
    ],
    ids=str,
)
def test_another_form_is_no_answer(changes: dict[str, Any]) -> None:
    assert read(task(TOLD | changes)).reason is Reason.REMOTE_RESPONSE_INVALID


@pytest.mark.parametrize("name", TOLD)
def test_every_member_is_needed(name: str) -> None:
    told = {member: value for member, value in TOLD.items() if member != name}
    assert read(task(told)).reason is Reason.REMOTE_RESPONSE_INVALID


def test_a_part_that_describes_nothing_is_no_answer() -> None:
    made = task()
    made.artifacts[0].parts[0].ClearField("metadata")
    assert read(made).reason is Reason.REMOTE_RESPONSE_INVALID
    assert read(task("text")).reason is Reason.REMOTE_RESPONSE_INVALID


@pytest.mark.parametrize("media_type", ["text/csv", "", "application/vnd.apache.arrow.file"])
def test_another_media_type_is_no_answer(media_type: str) -> None:
    assert read(task(media_type=media_type)).reason is Reason.REMOTE_RESPONSE_INVALID


def test_rows_and_an_address_together_are_no_answer() -> None:
    made = task()
    made.artifacts[0].parts.append(Part(raw=b"{}", media_type=RESULT_MEDIA_TYPE))
    assert read(made).reason is Reason.REMOTE_RESPONSE_INVALID


def test_an_answer_is_completed_from_rows_that_came_and_from_no_others() -> None:
    stored = read(task()).stored
    assert stored is not None
    verified = Verified(stored, {}, None, "d" * 64)  # type: ignore[arg-type]
    with pytest.raises(NotGranted) as stop:
        _supplied(verified, read(task()))
    assert stop.value.reason is Reason.RESULT_TOO_LARGE
