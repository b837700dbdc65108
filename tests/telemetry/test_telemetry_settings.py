"""Traces are off until the standard variables of OpenTelemetry turn them on, and what cannot be meant stops the start."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from contract.errors import Category, Component, DatasetAgentError
from contract.trace_context import TraceContext
from dataset_agent.console import exit_code
from telemetry.environment import Wanted, wanted
from telemetry.export import open_traces
from telemetry.sampling import SAMPLERS, sampler_of

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
DEFAULT = Wanted("parentbased_always_on", 1.0)
LOW, HIGH = "0" * 31 + "1", "f" * 32
YES, NO = TraceContext(LOW, "1" * 16, True), TraceContext(LOW, "1" * 16, False)


def asked(**environ: str) -> Wanted | None:
    return wanted(environ, Component.REMOTE_AGENT)


def test_without_a_word_no_traces_are_exported() -> None:
    assert asked() is None
    assert asked(OTEL_TRACES_SAMPLER="always_on", OTEL_SERVICE_NAME="x") is None


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_TRACES_EXPORTER": "otlp"},
        {"OTEL_TRACES_EXPORTER": " OTLP "},
        ENDPOINT,
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "false"},
    ],
)
def test_an_exporter_or_an_endpoint_turns_them_on(environ: dict[str, str]) -> None:
    assert asked(**environ) == DEFAULT


@pytest.mark.parametrize("off", [{"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}])
def test_none_and_disabled_turn_them_off(off: dict[str, str]) -> None:
    assert asked(**ENDPOINT, **off) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_TRACES_EXPORTER", "otlp,console"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
    ],
)
def test_what_cannot_be_meant_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(DatasetAgentError, match="OTEL_") as fault:
        asked(**ENDPOINT | {name: value})
    assert fault.value.category is Category.CONFIGURATION and exit_code(fault.value) == 2


def test_how_long_the_last_spans_may_take_is_said_in_milliseconds_and_bounded() -> None:
    assert asked(**ENDPOINT, OTEL_BSP_EXPORT_TIMEOUT="250") == replace(DEFAULT, last_s=0.25)
    assert asked(**ENDPOINT, OTEL_BSP_EXPORT_TIMEOUT="3600000") == replace(DEFAULT, last_s=60.0)
    for wrong in ("0", "-1", "1.5", "soon", "9" * 20, "\u0663"):
        with pytest.raises(DatasetAgentError, match="OTEL_BSP_EXPORT_TIMEOUT"):
            asked(**ENDPOINT, OTEL_BSP_EXPORT_TIMEOUT=wrong)


@pytest.mark.parametrize("ratio", ["-0.1", "1.1", "nan", "half", "inf"])
def test_a_share_is_a_number_from_0_to_1(ratio: str) -> None:
    with pytest.raises(DatasetAgentError, match="OTEL_TRACES_SAMPLER_ARG"):
        asked(**ENDPOINT, OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG=ratio)


def test_a_share_is_read_where_it_is_meant() -> None:
    said = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}
    assert asked(**ENDPOINT, **said) == Wanted("parentbased_traceidratio", 0.25)
    assert asked(**ENDPOINT, OTEL_TRACES_SAMPLER_ARG="rules") == DEFAULT


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setattr("telemetry.export.find_spec", lambda _: None)
    with pytest.raises(DatasetAgentError, match=r"dataset-agent\[otel\]"):
        open_traces(Component.REMOTE_AGENT, "dataset-agent", version="1")


def test_without_a_word_the_extra_is_not_even_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("telemetry.export.find_spec", lambda _: pytest.fail("looked for"))
    assert not open_traces(Component.REMOTE_AGENT, "dataset-agent", version="1").on


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name.startswith("parentbased_")])
def test_a_parent_decides_for_a_sampler_that_follows_it(name: str) -> None:
    sampled = sampler_of(name, 0.5)
    assert (sampled(YES, HIGH), sampled(NO, LOW)) == (True, False)


@pytest.mark.parametrize("prefix", ["", "parentbased_"])
def test_without_a_parent_the_name_says(prefix: str) -> None:
    assert sampler_of(f"{prefix}always_on", 0.0)(None, HIGH)
    assert not sampler_of(f"{prefix}always_off", 1.0)(None, LOW)
    share = sampler_of(f"{prefix}traceidratio", 0.5)
    assert (share(None, LOW), share(None, HIGH)) == (True, False)


def test_a_caller_does_not_choose_where_the_sampler_does_not_follow_it() -> None:
    assert not sampler_of("always_off", 1.0)(YES, LOW)
    assert not sampler_of("traceidratio", 0.0)(YES, LOW)
    assert sampler_of("always_on", 0.0)(NO, HIGH)


def test_a_share_of_the_traces_is_kept() -> None:
    share = sampler_of("traceidratio", 0.25)
    kept = sum(share(None, secrets.token_hex(16)) for _ in range(4_000))
    assert 800 < kept < 1_200
