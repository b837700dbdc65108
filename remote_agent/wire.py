"""SendMessage as JSON, read and written without protobuf's general conversion, which costs more than to answer a hit.

Only the plain forms are known here; what has any other is left to the SDK. Both give the same
message, and the same JSON.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, NamedTuple

import orjson
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import ListValue, Struct, Value

_ROLES: Final = {name: value for name, value in Role.items() if value}
_STATES: Final = {value: name for name, value in TaskState.items()}
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


def reply(request_id: str | int, answer: Task | Message) -> bytes:
    """The JSON-RPC response to a SendMessage that was answered with ``answer``."""
    result = {"task": task_json(answer)} if isinstance(answer, Task) else {"message": MessageToDict(answer)}
    return orjson.dumps({"result": result, "id": request_id, "jsonrpc": "2.0"})


def task_json(task: Task) -> dict[str, Any]:
    """What ``MessageToDict`` makes of a task that this agent wrote."""
    if task.history:
        return dict(MessageToDict(task))
    told: dict[str, Any] = {"id": task.id, "contextId": task.context_id, "status": _status(task)}
    if task.artifacts:
        told["artifacts"] = [_artifact(artifact) for artifact in task.artifacts]
    if task.HasField("metadata"):
        told["metadata"] = _struct(task.metadata)
    return told


def struct(value: dict[str, Any]) -> Struct:
    """JSON as protobuf keeps it: every number is a double."""
    return Struct(fields={name: _value(member) for name, member in value.items()})


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


def _status(task: Task) -> dict[str, Any]:
    status = task.status
    told: dict[str, Any] = {"state": _STATES[status.state]}
    if status.HasField("message"):
        told["message"] = MessageToDict(status.message)
    if status.HasField("timestamp"):
        told["timestamp"] = status.timestamp.ToJsonString()
    return told


def _artifact(artifact: Artifact) -> dict[str, Any]:
    if artifact.HasField("metadata"):
        return dict(MessageToDict(artifact))
    told = {
        "artifactId": artifact.artifact_id,
        "name": artifact.name,
        "description": artifact.description,
        "parts": [_part_json(part) for part in artifact.parts],
        "extensions": list(artifact.extensions),
    }
    return {name: member for name, member in told.items() if member}


def _part_json(part: Part) -> dict[str, Any]:
    if not part.HasField("raw") or part.HasField("metadata") or part.filename:
        return dict(MessageToDict(part))
    told = {"raw": base64.b64encode(part.raw).decode("ascii")}
    return {**told, "mediaType": part.media_type} if part.media_type else told


def _struct(value: Struct) -> dict[str, Any]:
    return {name: _plain(member) for name, member in value.fields.items()}


def _plain(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _struct(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    return None if kind is None or kind == "null_value" else getattr(value, kind)


def _value(value: Any) -> Value:
    if isinstance(value, str):
        return Value(string_value=value)
    if value is None:
        return Value(null_value=0)
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, (int, float)):
        return Value(number_value=value)
    if isinstance(value, dict):
        return Value(struct_value=struct(value))
    return Value(list_value=ListValue(values=[_value(item) for item in value]))
