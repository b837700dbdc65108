"""One run with markers: tokens, arguments and rows are in no log, span, session, stored task, key or ledger."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.sessions import InMemorySessionService
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from contract.call import Operation
from contract.canonical import sha256_hex
from tests.remote_agent.chain_world import MARKED, Tap, chain_world
from tests.remote_agent.test_hop_fails import subject
from tests.remote_agent.test_tasks_and_cards import ENGINEER, as_person
from tests.running_agent import Asker, agent_home, decision_of, result_of, running_agent, task_of

DATASET, CAPABILITY = "purification-batches", "calculate_yield"
MARKED_BATCH = "B077"
MARKED_WORDS = "zebra crossing 9000"


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The JSON of every event that ADK appends to a session."""
    seen: list[str] = []
    append = InMemorySessionService.append_event

    async def recording(self: InMemorySessionService, session: Any, event: Any) -> Any:
        seen.append(event.model_dump_json())
        return await append(self, session, event)

    monkeypatch.setattr(InMemorySessionService, "append_event", recording)
    return seen


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def everything_on_disk(home: Path) -> str:
    """The text of every table and the bytes of every file a run left, keys, engine files and the data aside."""
    found: list[str] = []
    for path in home.rglob("*"):
        if not path.is_file() or {"keys", "engines", "datasets"} & set(path.relative_to(home).parts):
            continue
        found.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".sqlite":
            with sqlite3.connect(path) as connection:
                found.append("\n".join(connection.iterdump()))
    return "\n".join(found)


def stands_in(value: str, text: str) -> bool:
    """By itself: digits of a decimal also occur within an instant."""
    return re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", text) is not None


def test_tokens_arguments_and_rows_stay_where_they_belong(
    tmp_path: Path, events: list[str], caplog: pytest.LogCaptureFixture, spans: InMemorySpanExporter
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = agent_home(tmp_path / "home")
    with running_agent(settings) as agent:
        asker = Asker(settings, agent.url)
        call = asker.call(DATASET, CAPABILITY, {"batch_id": MARKED_BATCH})
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        grants, tasks = [], []
        for _ in range(2):
            grants.append(asker.grant(asker.scope(DATASET, CAPABILITY), operation))
            tasks.append(task_of(asker.send(call, asker.headers(grants[-1]))))
        asker.ask(DATASET, "search", {"query": MARKED_WORDS})
        replayed = task_of(asker.send(call, asker.headers(grants[0])))
        stored = asker.rpc("ListTasks", {"includeArtifacts": True}, as_person(asker, ENGINEER)).text
        exported = "\n".join(span.to_json() for span in spans.get_finished_spans())
        on_disk = everything_on_disk(settings.home)
    rows = result_of(tasks[0])["rows"]
    values = {str(cell) for row in rows for cell in row if isinstance(cell, str) and len(cell) >= 6}
    assert values, "the marked batch must have values that could leak"
    tokens = {token for grant in grants for token in grant.split(",")}
    logged = caplog.text
    places = {"log": logged, "spans": exported, "sessions": "".join(events), "disk": on_disk, "tasks": stored}
    assert events
    for place, text in places.items():
        leaked = [secret for secret in tokens | {MARKED_WORDS} if secret in text]
        leaked += [value for value in values if stands_in(value, text)]
        assert leaked == [], f"{place} holds {leaked}"
    answers = json.dumps([*tasks, replayed])
    assert not any(token in answers or token.split(".")[2] in answers for token in tokens)


def test_nothing_of_a_hop_stays_at_either_agent(
    tmp_path: Path, events: list[str], caplog: pytest.LogCaptureFixture, spans: InMemorySpanExporter
) -> None:
    caplog.set_level(logging.DEBUG)
    tap = Tap()
    with chain_world(tmp_path, 2, wrap=tap) as world:
        call = world.call(key=MARKED)
        answers = [task_of(world.post(1, call, world.leaf(world.root_token(), call)))]
        assert result_of(answers[0])["rows"] == [[MARKED, "Basel", 6]]
        world.agents[1].run(world.agents[1].lifecycle.service.state.revoke(*subject(), not_before=time.time() + 60))
        answers.append(task_of(world.post(1, call, world.leaf(world.root_token(), call))))
        assert decision_of(answers[1])["reason"] == "GRANT_REVOKED"
        stored = "".join(str(agent.lifecycle.service.ledger.rows()) for agent in world.agents)
        for place, by in ((1, None), (2, 1)):
            body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"includeArtifacts": True}}
            headers = {n: v for n, v in world.headers(place, ["x"], by=by).items() if n != "Execution-Grant"}
            stored += httpx.post(world.agents[place - 1].url + "/", json=body, headers=headers).text
        exported = "\n".join(span.to_json() for span in spans.get_finished_spans())
        on_disk = "".join(everything_on_disk(agent.settings.home) for agent in world.agents)
    assert len(tap.chains) == 2
    tokens = {token for chain in (*tap.chains, world.sent) for token in chain}
    assert len(tokens) == 6
    secrets = {MARKED, *tokens, *(token.split(".")[2] for token in tokens)}
    places = {"log": caplog.text, "spans": exported, "sessions": "".join(events), "disk": on_disk, "tasks": stored}
    assert any("dataset_agent" in event for event in events)
    for place, text in places.items():
        assert [secret for secret in secrets if secret in text] == [], place
    told = json.dumps(answers[1]) + json.dumps(answers[0]["metadata"])
    assert not any(secret in told for secret in secrets)
