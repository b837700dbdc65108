"""No process starts where its environment asks for content in spans, in whatever words."""

from __future__ import annotations

import os

import pytest
from google.adk.telemetry.context import TelemetryConfig

from contract.errors import Category, Component, DatasetAgentError
from contract.telemetry import refuse_content_capture
from dataset_agent.console import exit_code


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refusing sets is set for this test alone."""
    for name in ("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "ADK_TELEMETRY_IGNORE_RUN_CONFIG"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "yes"),
        ("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "TRUE"),
        ("ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN", "1"),
        ("ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN", "otel_semconv_1_36"),
        ("ADK_EXPERIMENTAL_TELEMETRY", "true"),
        ("ADK_EXPERIMENTAL_TELEMETRY_FEATURES", "hallucination"),
    ],
)
def test_a_start_that_asks_for_content_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(DatasetAgentError, match=f"unset {name}") as fault:
        refuse_content_capture(Component.ROOT_AGENT)
    assert fault.value.category is Category.CONFIGURATION and exit_code(fault.value) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "NO_CONTENT"),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", " false "),
        ("ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN", "2"),
        ("ADK_EXPERIMENTAL_TELEMETRY", "0"),
    ],
)
def test_one_that_says_that_it_does_not_is_none(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    refuse_content_capture(Component.ROOT_AGENT)


def test_adk_is_told_to_capture_nothing_and_to_hear_no_run_that_asks_for_it() -> None:
    refuse_content_capture(Component.ROOT_AGENT)
    assert os.environ["ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"] == "false"
    asked = TelemetryConfig.model_validate({"capture_message_content": "SPAN_AND_EVENT"})
    assert not asked.should_add_content_to_legacy_spans
