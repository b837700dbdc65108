"""Telemetry that may not see content: prompts, arguments and rows stay out of spans and logs."""

from __future__ import annotations

import logging
import os
import secrets
import warnings
from typing import Final

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from contract.errors import Category, Component, DatasetAgentError

_CAPTURE: Final = (
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS",
)
_OFF: Final = frozenset({"", "0", "false", "no", "off", "no_content"})
# These log whole requests, replies or prompts at DEBUG.
_CONTENT_LOGGERS: Final = ("a2a", "google_adk", "google.adk", "httpx", "httpcore")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def refuse_content_capture() -> None:
    """Raise a CONFIGURATION fault where the environment asks for content in spans.

    ADK's own switch is on until it is set, so an unset one is set to false here; a switch
    that an operator turned on stops the start instead of being overruled in silence.
    """
    for name in _CAPTURE:
        if os.environ.get(name, "").strip().lower() not in _OFF:
            raise DatasetAgentError(
                Component.ROOT_AGENT,
                Category.CONFIGURATION,
                "root_agent.telemetry.content",
                f"unset {name}: a root agent does not put questions, arguments or rows into spans",
            )
    os.environ["ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"] = "false"


def quiet_content_loggers() -> None:
    """Keep libraries that log content to warnings, whatever the log level is.

    ADK warns about its A2A support once for every function of it; the pin in pyproject.toml is
    the answer to that.
    """
    for name in _CONTENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]", category=UserWarning)


def new_trace_id() -> str:
    """The active span's trace id where there is one, else 128 random bits; 32 hex digits."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else secrets.token_hex(16)


def traceparent(trace_id: str) -> str:
    """A W3C ``traceparent`` of this trace: the active span's own, else a new parent id."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    current = carrier.get("traceparent", "")
    return current if trace_id in current else f"00-{trace_id}-{secrets.token_hex(8)}-00"
