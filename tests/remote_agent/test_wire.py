"""The plain forms of SendMessage are read and written as protobuf's own JSON is; any other is left to the SDK."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, SendMessageRequest, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from remote_agent.wire import read_sent, reply, struct, task_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.dictionaries(TEXT, JSON, max_size=4)
STRUCTS = MEMBERS.map(lambda value: ParseDict(value, Struct()))
PARTS = st.one_of(
    st.builds(Part, raw=st.binary(max_size=20), media_type=TEXT),
    st.builds(Part, text=TEXT, media_type=TEXT),
    st.builds(Part, url=TEXT, metadata=STRUCTS),
    st.builds(Part, raw=st.binary(max_size=4), filename=TEXT),
)
MESSAGES = st.builds(
    Message, message_id=TEXT, role=st.sampled_from(Role.values()), parts=st.lists(PARTS, max_size=2), metadata=STRUCTS
)
ARTIFACTS = st.builds(
    Artifact,
    artifact_id=TEXT.filter(bool),
    name=TEXT,
    description=TEXT,
    parts=st.lists(PARTS, max_size=2),
    extensions=st.lists(TEXT, max_size=2),
    metadata=st.none() | STRUCTS,
)
TASKS = st.builds(
    Task,
    id=TEXT.filter(bool),
    context_id=TEXT.filter(bool),
    status=st.builds(
        TaskStatus,
        state=st.sampled_from([state for state in TaskState.values() if state]),
        message=st.none() | MESSAGES,
        timestamp=st.none() | st.builds(Timestamp, seconds=st.integers(0, 4 * 10**9), nanos=st.integers(0, 10**9 - 1)),
    ),
    artifacts=st.lists(ARTIFACTS, max_size=3),
    history=st.lists(MESSAGES, max_size=1),
    metadata=st.none() | STRUCTS,
)
RAW = base64.b64encode(b'{"dataset":"d"}').decode()


def called(params: Any, **envelope: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params} | envelope).encode()


def message(**members: Any) -> dict[str, Any]:
    told = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": RAW, "mediaType": "application/json"}]} | members
    return {name: member for name, member in told.items() if member is not ...}


@given(TASKS)
def test_a_task_is_written_as_protobuf_writes_it(task: Task) -> None:
    assert task_json(task) == MessageToDict(task)
    assert json.loads(reply("i", task)) == {"jsonrpc": "2.0", "id": "i", "result": {"task": MessageToDict(task)}}


@given(MESSAGES)
def test_a_message_is_an_answer_too(message: Message) -> None:
    assert json.loads(reply(1, message))["result"] == {"message": MessageToDict(message)}


@given(MEMBERS)
def test_json_is_kept_as_protobuf_keeps_it(value: dict[str, Any]) -> None:
    assert struct(value) == ParseDict(value, Struct())


@pytest.mark.parametrize(
    "params",
    [
        {"message": message()},
        {"message": message(parts=[])},
        {"message": message(messageId=...)},
        {"message": message(messageId="", contextId="c", taskId="t", parts=[{"text": "ü"}, {"raw": ""}])},
        {"message": message(role="ROLE_AGENT"), "configuration": {}},
        {"message": message(), "configuration": {"acceptedOutputModes": ["a/b"], "returnImmediately": True}},
    ],
)
@pytest.mark.parametrize("request_id", [1, 0, "x", ""])
def test_a_plain_request_is_read_as_protobuf_reads_it(params: dict[str, Any], request_id: int | str) -> None:
    sent = read_sent(called(params, id=request_id))
    assert sent is not None
    assert sent.params == ParseDict(params, SendMessageRequest(), ignore_unknown_fields=True)
    assert (sent.id, type(sent.id)) == (request_id, type(request_id))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        called({"message": message()}, method="GetTask"),
        called({"message": message()}, jsonrpc="1.0"),
        called({"message": message()}, extra=1),
        called([]),
        called({}),
        called({"message": message(), "tenant": "t"}),
        *(called({"message": message()}, id=other) for other in (None, True, 1.0, [], 2**70)),
        *(called({"message": other}) for other in (None, [], "m")),
        *(called({"message": message(**other)}) for other in ({"role": 1}, {"role": "ROLE_X"}, {"role": ...})),
        *(called({"message": message(**other)}) for other in ({"parts": {}}, {"parts": ...}, {"messageId": None})),
        *(called({"message": message(**other)}) for other in ({"metadata": {}}, {"message_id": "m"})),
        *(
            called({"message": message(parts=[other])})
            for other in (None, {}, {"raw": "A"}, {"raw": "_-=="}, {"raw": 1})
        ),
        *(
            called({"message": message(parts=[other])})
            for other in ({"text": "t", "raw": RAW}, {"data": 1}, {"text": 1})
        ),
        *(called({"message": message(), "configuration": other}) for other in (None, {"historyLength": 1})),
        called({"message": message(), "configuration": {"acceptedOutputModes": "a"}}),
        called({"message": message(), "configuration": {"returnImmediately": 1}}),
    ],
)
def test_any_other_form_is_left_to_the_sdk(body: bytes) -> None:
    assert read_sent(body) is None
