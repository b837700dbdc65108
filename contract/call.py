"""A call as it travels: one JSON part, hashed exactly as sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.canonical import InvalidJson, canonical_json, parse_json, sha256_hex
from contract.ids import is_slug
from contract.verdict import NotGranted, Reason

MAX_CALL_BYTES = 64 * 1024
MAX_QUESTION_CHARS: Final = 4_000
"""Of a question in words, from which a call is read."""
CALL_MEDIA_TYPE = "application/json"
RESULT_MEDIA_TYPE = "application/json"
ARROW_MEDIA_TYPE = "application/vnd.apache.arrow.stream"
GET_RESULTS = "GetResults"
"""The method of a leaf that fetches a result which was stored: ``GET /results/{task}``."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one capability. ``raw`` are the bytes that were sent and hashed."""

    dataset: str
    capability: str
    arguments: Mapping[str, Any]
    raw: bytes

    @property
    def call_hash(self) -> str:
        """Hex SHA-256 of the part's bytes exactly as sent."""
        return sha256_hex(self.raw)

    @classmethod
    def parse(cls, raw: bytes) -> Call:
        """From the bytes of the single ``raw`` part ``{"dataset","capability","arguments"}``.

        Raises ``NotGranted(CALL_MALFORMED)``; names are slugs, arguments an object, and
        nothing else may stand beside them.
        """
        try:
            value = parse_json(raw, limit=MAX_CALL_BYTES)
        except InvalidJson as error:
            raise NotGranted(Reason.CALL_MALFORMED, f"the call is not acceptable: {error}") from error
        if not isinstance(value, dict) or set(value) != {"dataset", "capability", "arguments"}:
            raise NotGranted(Reason.CALL_MALFORMED, "a call has exactly the members dataset, capability and arguments")
        dataset, capability, arguments = value["dataset"], value["capability"], value["arguments"]
        if not (isinstance(dataset, str) and is_slug(dataset) and isinstance(capability, str) and is_slug(capability)):
            raise NotGranted(Reason.CALL_MALFORMED, "dataset and capability must be names of a-z, 0-9, '_' and '-'")
        if not isinstance(arguments, dict):
            raise NotGranted(Reason.CALL_MALFORMED, "arguments must be an object")
        return cls(dataset=dataset, capability=capability, arguments=arguments, raw=raw)


def encode_call(dataset: str, capability: str, arguments: Mapping[str, Any]) -> bytes:
    """The bytes of the single ``raw`` part; integers of any size survive. Raises ``ValueError`` for what is not JSON."""
    members = {"dataset": dataset, "capability": capability, "arguments": dict(arguments)}
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def parse_follow_up(raw: bytes, *, task: str, half: Call | None) -> Call:
    """The call that a further message of a task asks for: a whole call, or what completes the ``half`` one.

    The bytes of a completion are ``{"task", "arguments"}``: the id of its own task, so that a leaf
    for them is good for no other, and arguments that the half call does not have. The whole is then
    the RFC 8785 form of ``{"dataset", "capability", "arguments"}``, and ``raw`` of what is returned.
    Raises ``NotGranted`` with CALL_MALFORMED, or ARGUMENTS_INVALID for an argument given before.
    """
    try:
        value = parse_json(raw, limit=MAX_CALL_BYTES)
    except InvalidJson as error:
        raise NotGranted(Reason.CALL_MALFORMED, f"the call is not acceptable: {error}") from error
    if not isinstance(value, dict) or set(value) != {"task", "arguments"}:
        return Call.parse(raw)
    if value["task"] != task or not isinstance(value["arguments"], dict):
        raise NotGranted(Reason.CALL_MALFORMED, "what completes a call names its own task, and arguments as an object")
    if half is None:
        raise NotGranted(Reason.CALL_MALFORMED, "the task remembers no call to complete: send the whole call")
    return completed(half, value["arguments"])


def completed(half: Call, further: Mapping[str, Any]) -> Call:
    """The half call with further arguments. Raises as ``parse_follow_up``."""
    if not half.arguments.keys().isdisjoint(further):
        raise NotGranted(Reason.ARGUMENTS_INVALID, "an argument is given that the task has already")
    members = {"dataset": half.dataset, "capability": half.capability, "arguments": {**half.arguments, **further}}
    try:
        return Call.parse(canonical_json(members))
    except InvalidJson as error:
        raise NotGranted(
            Reason.CALL_MALFORMED, "the completed call has no canonical form: write long integers as text"
        ) from error


@dataclass(frozen=True, slots=True)
class Operation:
    """What a leaf is bound to (its ``op`` claim), and what a receiver saw arrive.

    Exactly one of ``call_hash``, ``task`` and ``negotiate`` is set, none for ``discover``.
    ``method`` is an A2A method name (``SendMessage``, ``SendStreamingMessage``,
    ``SubscribeToTask``, ``GetResults``) or ``discover``.
    """

    method: str
    call_hash: str | None = None
    task: str | None = None
    negotiate: bool = False

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"method": self.method}
        if self.call_hash is not None:
            out["call_hash"] = self.call_hash
        if self.task is not None:
            out["task"] = self.task
        if self.negotiate:
            out["negotiate"] = True
        return out
