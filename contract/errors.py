"""One structured error for what is a fault and not an outcome (transport, configuration, bugs).

A refusal or an INDETERMINATE is never an error: see ``contract.verdict.NotGranted``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Component(StrEnum):
    """The part of the product that a fault is of; the first part of its code."""

    CONTROL_PLANE = "control_plane"
    GRANTS = "grants"
    QUERIES = "queries"
    CACHE = "cache"
    EVIDENCE = "evidence"
    ROOT_AGENT = "root_agent"
    REMOTE_AGENT = "remote_agent"
    COMMAND = "command"


class Category(StrEnum):
    """What kind of fault it is: each has one HTTP status."""

    INVALID_INPUT = "invalid_input"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    CONFIGURATION = "configuration"
    INTERNAL = "internal"


_HTTP: Mapping[Category, int] = {
    Category.INVALID_INPUT: 400,
    Category.UNAUTHENTICATED: 401,
    Category.FORBIDDEN: 403,
    Category.NOT_FOUND: 404,
    Category.CONFLICT: 409,
    Category.TIMEOUT: 504,
    Category.RATE_LIMITED: 429,
    Category.UNAVAILABLE: 503,
    Category.CONFIGURATION: 500,
    Category.INTERNAL: 500,
}
_TOO_LARGE = 413
_BY_STATUS: Mapping[int, tuple[Category, str, str]] = {
    404: (Category.NOT_FOUND, "path.unknown", "there is no such path"),
    405: (Category.INVALID_INPUT, "method.unknown", "the path does not take this method"),
    413: (Category.INVALID_INPUT, "body.too_large", "the request is too large"),
    415: (Category.INVALID_INPUT, "body.media_type", "the path does not take a body of this type"),
    422: (Category.INVALID_INPUT, "request.form", "the request does not have the form that the path takes"),
}
_RETRYABLE = frozenset({Category.RATE_LIMITED, Category.UNAVAILABLE, Category.TIMEOUT})


class DatasetAgentError(Exception):
    """A fault with a component, a category and a dotted lower-case code.

    ``message`` is one line that says what to do and holds no secret, argument or row.
    """

    def __init__(
        self,
        component: Component,
        category: Category,
        code: str,
        message: str,
        *,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.component = component
        self.category = category
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.details = dict(details or {})

    @property
    def is_retryable(self) -> bool:
        return self.category in _RETRYABLE

    @property
    def is_not_found(self) -> bool:
        return self.category is Category.NOT_FOUND

    def http_status_code(self) -> int:
        return _TOO_LARGE if self.code.endswith("too_large") else _HTTP[self.category]

    def to_problem_json(self) -> dict[str, Any]:
        """RFC 9457 problem details; no stack trace, no secret."""
        problem: dict[str, Any] = {
            "type": f"urn:dataset-agent:error:{self.code}",
            "title": self.category.value.replace("_", " "),
            "status": self.http_status_code(),
            "detail": self.message,
            "component": self.component.value,
            "code": self.code,
            "retryable": self.is_retryable,
        }
        if self.retry_after is not None:
            problem["retry_after"] = self.retry_after
        if self.details:
            problem["details"] = self.details
        return problem


def fault_of_status(component: Component, status: int) -> DatasetAgentError:
    """What a web framework answers with a bare status, as a fault of ``component``; of its text nothing is kept."""
    category, code, message = _BY_STATUS.get(
        status,
        (Category.INVALID_INPUT, "request.refused", "the request cannot be taken")
        if 400 <= status < 500
        else (Category.INTERNAL, "request.failed", "the request failed"),
    )
    return DatasetAgentError(component, category, f"{component}.{code}", message)


class WrongSetting(DatasetAgentError):
    """A CONFIGURATION fault that is a variable's own value, or two that contradict one another: no file, key or server is wrong."""

    def __init__(self, component: Component, code: str, message: str) -> None:
        super().__init__(component, Category.CONFIGURATION, code, message)

    @classmethod
    def of(cls, fault: DatasetAgentError) -> WrongSetting:
        """The same fault, where what was read came from a variable."""
        return cls(fault.component, fault.code, fault.message)


class SignerUnavailable(DatasetAgentError):
    """A private key that is held elsewhere and cannot be used now. Nothing was signed."""

    def __init__(self, message: str) -> None:
        super().__init__(Component.GRANTS, Category.UNAVAILABLE, "grants.signer.unavailable", message)
