"""SendMessage as JSON, read without protobuf's general conversion, which costs more than to find a hit.

Only the plain forms are known here; what has any other is left to the SDK. Both give the same message.
"""

from __future__ import annotations

import binascii
from typing import Any, Final, NamedTuple

import orjson
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageConfiguration, SendMessageRequest, Task
from google.protobuf.json_format import ParseDict

TaskJson = dict[str, Any]
"""A task as A2A's JSON: what ``MessageToDict`` makes of it."""

_ROLES: Final = {name: value for name, value in Role.items() if value}
_ENVELOPE: Final = {"jsonrpc", "id", "method", "params"}
_PARAMS: Final = {"message", "configuration"}
_CONFIGURATION: Final = {"acceptedOutputModes", "returnImmediately"}
_TEXTS: Final = {"messageId": "message_id", "contextId": "context_id", "taskId": "task_id"}
_MESSAGE: Final = {"role", "parts", *_TEXTS}


class Sent(NamedTuple):
    """A SendMessage as it arrived."""

    id: str | int
    params: SendMessageRequest


class _OtherForm(Exception):
    """Not one of the plain forms: the SDK reads it, or says what is wrong with it."""


def read_sent(body: bytes) -> Sent | None:
    """The request of a JSON-RPC body; ``None`` for another method and for any form that is not plain."""
    try:
        call = orjson.loads(body)
        members = _object(call, _ENVELOPE)
        if members.get("jsonrpc") != "2.0" or members.get("method") != "SendMessage":
            return None
        if type(members.get("id")) not in (str, int):
            return None
        params = _object(members.get("params"), _PARAMS)
        request = SendMessageRequest(message=_message(params.get("message")))
        if "configuration" in params:
            request.configuration.CopyFrom(_configuration(params["configuration"]))
    except (orjson.JSONDecodeError, _OtherForm):
        return None
    return Sent(members["id"], request)


def task_of(told: TaskJson) -> Task:
    """The task that JSON tells of."""
    task: Task = ParseDict(told, Task())
    return task


def doubles(value: Any) -> Any:
    """JSON as protobuf gives it back, which keeps every number as a double."""
    if type(value) is int:
        return float(value)
    if isinstance(value, dict):
        return {name: doubles(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [doubles(item) for item in value]
    return value


def _object(value: Any, known: set[str]) -> dict[str, Any]:
    if type(value) is not dict or not known.issuperset(value):
        raise _OtherForm
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _OtherForm
    return value


def _message(value: Any) -> Message:
    members = _object(value, _MESSAGE)
    role, parts = _ROLES.get(_text(members.get("role"))), members.get("parts")
    if role is None or type(parts) is not list:
        raise _OtherForm
    texts = {name: _text(members[told]) for told, name in _TEXTS.items() if told in members}
    return Message(role=role, parts=[_part(part) for part in parts], **texts)


def _part(value: Any) -> Part:
    members = _object(value, {"raw", "text", "mediaType"})
    if ("raw" in members) is ("text" in members):
        raise _OtherForm
    media_type = _text(members.get("mediaType", ""))
    if "text" in members:
        return Part(text=_text(members["text"]), media_type=media_type)
    try:
        raw = binascii.a2b_base64(_text(members["raw"]), strict_mode=True)
    except ValueError as error:
        raise _OtherForm from error
    return Part(raw=raw, media_type=media_type)


def _configuration(value: Any) -> SendMessageConfiguration:
    members = _object(value, _CONFIGURATION)
    modes, immediately = members.get("acceptedOutputModes", []), members.get("returnImmediately", False)
    if type(modes) is not list or type(immediately) is not bool:
        raise _OtherForm
    return SendMessageConfiguration(
        accepted_output_modes=[_text(mode) for mode in modes], return_immediately=immediately
    )
