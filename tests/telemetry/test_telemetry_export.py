"""Spans go to a collector as OpenTelemetry's, and one that is away costs no request anything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from contract.errors import Component
from contract.trace_context import TraceContext, taken
from contract.tracing import Kind, Traces, tracing
from telemetry.export import open_traces
from tests.telemetry.collector import Collector, collecting

CALLER = TraceContext("b" * 32, "c" * 16, True)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as opened:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        yield opened


def opened() -> Traces:
    return open_traces(Component.REMOTE_AGENT, "dataset-agent", version="9.9")


def one_request(traces: Traces) -> None:
    taken.set(CALLER)
    try:
        with traces.begin("http"), tracing("a2a.call", Kind.CLIENT) as span:
            span.tell(request_id="req-1", attempts=2)
            with pytest.raises(ValueError, match="zebra"), tracing("run"):
                raise ValueError("zebra crossing 9000")
    finally:
        taken.set(None)


def patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long this machine stands still."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "60000")


def test_a_request_arrives_as_one_trace(collector: Collector) -> None:
    traces = opened()
    one_request(traces)
    traces.close()
    spans = {span.name: span for span in collector.spans()}
    assert {span.trace_id.hex() for span in spans.values()} == {CALLER.trace_id}
    assert spans["http"].parent_span_id.hex() == CALLER.span_id
    assert spans["a2a.call"].parent_span_id == spans["http"].span_id
    assert spans["run"].parent_span_id == spans["a2a.call"].span_id
    assert [spans[name].kind for name in ("http", "a2a.call", "run")] == [2, 3, 1]
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in spans.values())


def test_attributes_arrive_and_a_fault_by_its_type_alone(collector: Collector) -> None:
    traces = opened()
    one_request(traces)
    traces.close()
    spans = {span.name: span for span in collector.spans()}
    told = {one.key: one.value for one in spans["a2a.call"].attributes}
    assert (told["request_id"].string_value, told["attempts"].int_value) == ("req-1", 2)
    assert (spans["run"].status.code, spans["run"].status.message) == (2, "")
    assert not any(span.events or span.links or span.trace_state for span in spans.values())
    assert not any(b"zebra" in body for body in collector.bodies)


def test_the_process_is_called_what_it_is_or_what_the_operator_says(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (None, "lab"):
        if name is not None:
            monkeypatch.setenv("OTEL_SERVICE_NAME", name)
            monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab-1")
        traces = opened()
        one_request(traces)
        traces.close()
    first, second = collector.resources()
    assert (first["service.name"], first["service.version"]) == ("dataset-agent", "9.9")
    assert (second["service.name"], second["deployment.environment.name"]) == ("lab", "lab-1")
    assert first["service.instance.id"] != second["service.instance.id"]


def test_a_collector_that_refuses_is_one_line_and_costs_no_request_anything(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400
    traces = opened()
    for _ in range(3):
        one_request(traces)
    traces.close()
    own = [record.getMessage() for record in caplog.records if record.name == "telemetry.export"]
    assert own == ["9 spans were not exported (the endpoint did not take them); requests go on without"]


def test_a_collector_that_is_away_does_not_keep_a_process_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
        traces = opened()
        one_request(traces)
        closing = threading.Thread(target=traces.close)
        closing.start()
        closing.join(5)
        assert not closing.is_alive()
    assert all(thread.daemon for thread in threading.enumerate() if "span" in thread.name.lower())
    assert "zebra" not in caplog.text
    own = [record.getMessage() for record in caplog.records if record.name == "telemetry.export"]
    assert own == ["3 spans of this process are lost (they had not left after 0.05 s); nothing but traces lacks them"]


def test_spans_that_find_the_queue_full_are_told_when_the_process_ends(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    patiently(monkeypatch)
    traces = opened()
    with collector.held():
        for _ in range(9):
            one_request(traces)
    traces.close()
    left, told = len(collector.spans()), [r.getMessage() for r in caplog.records if r.name == "telemetry.export"]
    assert told == [f"{27 - left} spans of this process are lost (the queue was full); nothing but traces lacks them"]


def test_spans_that_all_left_are_not_told(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    patiently(monkeypatch)
    traces = opened()
    for _ in range(9):
        one_request(traces)
    traces.close()
    assert (len(collector.spans()), caplog.text) == (27, "")


def test_what_is_not_sampled_does_not_leave(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    traces = opened()
    one_request(traces)
    traces.close()
    assert collector.bodies == []
