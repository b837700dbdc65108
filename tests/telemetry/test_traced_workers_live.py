"""``serve --workers 2`` and ``ask`` as processes: one trace over them at a real collector, and a log of JSON lines alone."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from contract.trace_context import new_trace_id
from tests.dataset_agent.command_line import CommandLine, served
from tests.running_agent import COMPARE, Asker, agent_home, decision_of
from tests.telemetry.collector import Collector, collecting

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"
QUESTION = "Compare the recovery of batches B001 and B002"
REQUESTS = 12


def by_trace(collector: Collector) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for span in collector.spans():
        found[span.trace_id.hex()].append(span)
    return found


def tops(spans: list[Any]) -> list[str]:
    ids = {span.span_id for span in spans}
    return [span.name for span in spans if span.parent_span_id not in ids]


def test_workers_and_a_question_are_traced_to_one_collector_and_log_json_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = agent_home(tmp_path / "home")
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "60000")  # however busy this machine is
        named = {"HOME": str(settings.home), "LOG_LEVEL": "DEBUG"}
        with served("serve", "--workers", "2", "--log-format", "json", **named) as agent:
            sent = []
            for _ in range(REQUESTS):
                asker = Asker(settings, agent.url, trace_id=new_trace_id())
                assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"
                sent.append(asker.trace_id)
            told = CommandLine({"HOME": str(settings.home), "URL": agent.url}).ask(QUESTION).json
            assert told["verdict"] == "GRANTED"
            agent.process.send_signal(signal.SIGTERM)
            assert agent.end() == 0
            lines = [json.loads(line) for line in agent.said]
    traces = by_trace(collector)
    assert set(sent) <= set(traces)
    assert [tops(traces[trace]) for trace in sent] == [["http"]] * REQUESTS
    names = {span.name for span in traces[told["trace_id"]]}
    assert {"ask", "a2a.call", "http", "request", "verify", "record", "seal"} <= names
    assert tops(traces[told["trace_id"]]) == ["ask"]
    services = {resource["service.name"] for resource in collector.resources()}
    workers = {one["service.instance.id"] for one in collector.resources() if one["service.name"] == "dataset-agent"}
    assert services == {"dataset-agent", "dataset-agent-root"}
    assert len(workers) == 2
    ended = {line.get("trace_id"): line for line in lines if line["message"] == "a request ended"}
    assert set(sent) <= set(ended)
    assert all(line["request_id"] and line["reason"] == "PRINCIPAL_AUTHORIZED" for line in map(ended.get, sent) if line)
    assert all(set(line) >= {"time", "level", "logger", "message"} for line in lines)
