"""Telemetry that may not see content: prompts, arguments and rows stay out of spans and logs."""

from __future__ import annotations

import logging
import os
import re
import warnings
from typing import Final

from contract.errors import Component, WrongSetting

_ADK_CAPTURE: Final = "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"
_ADK_LOCK: Final = "ADK_TELEMETRY_IGNORE_RUN_CONFIG"
_SCHEMA: Final = "ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN"
_CAPTURE: Final = (
    *("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", _ADK_CAPTURE, "ADK_EXPERIMENTAL_TELEMETRY"),
    *("ADK_EXPERIMENTAL_TELEMETRY_FEATURES", _SCHEMA),
)
_QUOTED: Final = re.compile(r"`[^`]*(`|$)")
_OFF: Final = frozenset({"", "0", "false", "no", "off", "no_content"})
_PRESENT: Final = frozenset({"", "2", "otel_semconv_1_44"})
"""Forms of ADK's spans; the one before writes into them what a model and a tool are given."""
# These log whole requests, replies or prompts at DEBUG.
_CONTENT_LOGGERS: Final = (
    "a2a",
    "google_adk",
    "google.adk",
    "httpx",
    "httpcore",
    "sse_starlette",
    "mcp",
    "httpx2",
    "httpcore2",
)


def refuse_content_capture(component: Component) -> None:
    """Raise a CONFIGURATION fault where the environment asks for content in spans, or for a form of them that holds it.

    ADK's own switch is on until it is set, so an unset one is set to false here; a switch
    that an operator turned on stops the start instead of being overruled in silence. What one
    run of an agent asks for is not heard.
    """
    for name in _CAPTURE:
        if os.environ.get(name, "").strip().lower() not in (_PRESENT if name == _SCHEMA else _OFF):
            told = f"unset {name}: questions, arguments and rows do not go into spans"
            raise WrongSetting(component, f"{component.value}.telemetry.content", told)
    os.environ[_ADK_CAPTURE] = "false"
    os.environ[_ADK_LOCK] = "true"


def unquoted(said: str) -> str:
    """What a fault says of a policy or descriptor file, for a log: without what it quotes of its text (in backquotes)."""
    return _QUOTED.sub("`…`", said)


def quiet_content_loggers() -> None:
    """Keep libraries that log content to warnings, whatever the log level is.

    ADK warns about its A2A support once for every function of it; the pin in pyproject.toml is
    the answer to that.
    """
    for name in _CONTENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]", category=UserWarning)
