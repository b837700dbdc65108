"""A fault as an error of A2A: one table, with the fault's own code beside the protocol's.

A refusal or an INDETERMINATE is none (``refusals.py``): it is a rejected task. Who is not authenticated gets HTTP 401
before the protocol is spoken.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from contract.errors import Category, Component, DatasetAgentError, fault_of_status

A2A_ERRORS: Final[Mapping[Category, type[A2AError]]] = MappingProxyType(
    {
        Category.INVALID_INPUT: InvalidParamsError,
        Category.UNAUTHENTICATED: InvalidRequestError,
        Category.FORBIDDEN: InvalidRequestError,
        Category.NOT_FOUND: TaskNotFoundError,
        Category.CONFLICT: UnsupportedOperationError,
        Category.TIMEOUT: InternalError,
        Category.RATE_LIMITED: InternalError,
        Category.UNAVAILABLE: InternalError,
        Category.CONFIGURATION: InternalError,
        Category.INTERNAL: InternalError,
    }
)


def a2a_error(fault: DatasetAgentError) -> A2AError:
    """The protocol's error for a fault, with what programs decide by in its ``data``."""
    data = {
        "code": fault.code,
        "component": fault.component.value,
        "category": fault.category.value,
        "retryable": fault.is_retryable,
    }
    return A2A_ERRORS[fault.category](message=fault.message, data=data)


def unforeseen() -> A2AError:
    """The protocol's error for what nobody foresaw: the code of an internal fault, and no text of whatever raised it."""
    return InternalError(
        message="the dataset agent failed", data=a2a_error(fault_of_status(Component.REMOTE_AGENT, 500)).data
    )
