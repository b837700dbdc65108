"""The plain forms of SendMessage are read as protobuf's own JSON is; any other is left to the SDK."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from a2a.types.a2a_pb2 import SendMessageRequest
from google.protobuf.json_format import ParseDict

from remote_agent.wire import read_sent

RAW = base64.b64encode(b'{"dataset":"d"}').decode()


def called(params: Any, **envelope: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params} | envelope).encode()


def message(**members: Any) -> dict[str, Any]:
    told = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": RAW, "mediaType": "application/json"}]} | members
    return {name: member for name, member in told.items() if member is not ...}


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
