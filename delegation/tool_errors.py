"""How a tool call that does not run, or fails, is told to an agent runtime: one form on both sides, with kinds from one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from contract.verdict import Reason

ARGS_INVALID: Final = "ToolArgsInvalid"
TOOL_ERROR: Final = "ToolError"
APPROVAL_DENIED: Final = "ApprovalDenied"
LIMIT_EXCEEDED: Final = "RunLimitExceeded"
BLOCKED: Final = "GuardrailBlocked"

_KINDS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.ARGUMENTS_INVALID: ARGS_INVALID,
        Reason.ARGUMENTS_MISSING: ARGS_INVALID,
        Reason.CALL_MALFORMED: ARGS_INVALID,
        Reason.REVIEW_REQUIRED: APPROVAL_DENIED,
        Reason.BUDGET_EXCEEDED: LIMIT_EXCEEDED,
        Reason.RESULT_TOO_LARGE: LIMIT_EXCEEDED,
        Reason.EXECUTION_FAILED: TOOL_ERROR,
        Reason.EXECUTION_TIMEOUT: TOOL_ERROR,
        Reason.RESULT_INVALID: TOOL_ERROR,
        Reason.RESULT_STORE_UNAVAILABLE: TOOL_ERROR,
        Reason.CANCELLED: TOOL_ERROR,
    }
)


def kind_of(reason: Reason) -> str:
    """The kind of an error; a reason that is in no other kind is one of authority, and blocks."""
    return _KINDS.get(reason, BLOCKED)


def blocked(reason: Reason, message: str) -> dict[str, Any]:
    """What a tool call gets instead of running; it is never tool evidence."""
    return {"status": "blocked", "reason": reason.value, "error": {"kind": kind_of(reason), "message": message}}


def failed(reason: Reason) -> dict[str, Any]:
    """What a tool call gets that ran into a stop: its code, and no text."""
    return {"error": {"kind": kind_of(reason), "message": reason.value}}
