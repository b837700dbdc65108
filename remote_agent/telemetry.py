"""Telemetry that may not see content: prompts, arguments and rows stay out of spans and logs."""

from __future__ import annotations

import logging
import os
from typing import Final

from contract.errors import Category, Component, DatasetAgentError

_CAPTURE: Final = (
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS",
)
_OFF: Final = frozenset({"", "0", "false", "no", "off", "no_content"})
# These log whole requests, headers or results at DEBUG.
_CONTENT_LOGGERS: Final = ("a2a", "google_adk", "google.adk", "httpx", "httpcore", "sse_starlette")


def refuse_content_capture() -> None:
    """Raise where the environment asks for content in spans."""
    for name in _CAPTURE:
        if os.environ.get(name, "").strip().lower() not in _OFF:
            raise DatasetAgentError(
                Component.REMOTE_AGENT,
                Category.CONFIGURATION,
                "remote_agent.telemetry.content",
                f"unset {name}: a dataset agent does not put content into spans",
            )


def quiet_content_loggers() -> None:
    """Keep libraries that log content at DEBUG to warnings, whatever the log level is."""
    for name in _CONTENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
