"""What kept a call over A2A from being answered, as a reply: told by kind, without a word of the other side."""

from __future__ import annotations

from typing import Final

import httpx
from a2a.client.errors import A2AClientError
from a2a.utils.errors import A2AError, TaskNotFoundError, UnsupportedOperationError

from contract.verdict import Reason
from delegation.http import UNAVAILABLE, ReplyTooLarge, busy
from delegation.reply import Reply

_MEANT: Final[dict[type[A2AError], str]] = {
    TaskNotFoundError: " (it has no such task, or not any more: send the call without it)",
    UnsupportedOperationError: " (the task has ended, or is being answered: send the call without it)",
}
"""What is meant where a call was sent in a task. No word of the other side is repeated."""


def failure(fault: Exception) -> Reply:
    """The reply in place of the one that did not come."""
    cause = fault.__cause__ if isinstance(fault, A2AError) else fault
    if isinstance(cause, ReplyTooLarge):
        return Reply.failed(Reason.REMOTE_RESPONSE_INVALID, f"the dataset agent's reply is not read: {cause}")
    if isinstance(cause, httpx.RequestError | OSError):
        return Reply.failed(Reason.REMOTE_UNREACHABLE, "the dataset agent cannot be reached")
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        if status in UNAVAILABLE:
            return Reply.failed(Reason.REMOTE_UNAVAILABLE, f"the dataset agent answered with {busy(cause.response)}")
        return Reply.failed(Reason.REMOTE_FAULT, f"the dataset agent answered with HTTP {status}")
    if isinstance(fault, A2AError) and cause is None and _is_protocol_error(fault):
        told = f"the dataset agent answered with a protocol error: {type(fault).__name__}"
        return Reply.failed(Reason.REMOTE_FAULT, f"{told}{_MEANT.get(type(fault), '')}")
    return Reply.failed(Reason.REMOTE_RESPONSE_INVALID, "the dataset agent's reply cannot be read")


def _is_protocol_error(fault: A2AError) -> bool:
    """A JSON-RPC error, known or not, rather than a reply that is no JSON-RPC at all."""
    return type(fault) is not A2AClientError or str(fault).startswith("JSON-RPC Error")
