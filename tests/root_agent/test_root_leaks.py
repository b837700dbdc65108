"""One run with markers: no token, argument or row in a session, a log at DEBUG, a span or a model's input."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task
from google.adk.sessions.session import Session
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from contract.errors import Component, DatasetAgentError
from contract.extension import GRANT_HEADER
from contract.telemetry import quiet_content_loggers, refuse_content_capture
from delegation.cards import CardBook
from root_agent.entry import RootAgent
from tests.root_agent.root_world import MARKER_ROW, RootWorld
from tests.root_agent.scripted_remote import Arrived, rejected

ARGUMENT = "argument-marker-5d0a"
CALL = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": ARGUMENT}}


@pytest.fixture
def world(world: RootWorld) -> RootWorld:
    """With cards that are fetched in the run itself, since an assertion travels with them."""
    known = world.service.cards
    assert isinstance(known, CardBook)
    world.service.cards = CardBook(known.http, world.service.assertions, private_network=False, ttl=60)
    return world


async def kept_session(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[Session, list[str]]:
    """One asking whose session is not deleted, and the secrets that travelled in it."""
    root = RootAgent(world.service)

    async def keep(asking: Any) -> None:
        return None

    monkeypatch.setattr(root, "_forget", keep)
    try:
        answer = await root.ask(world.token("process_engineer"), call=CALL)
        session = await root._sessions.get_session(
            app_name="root_agent",
            user_id=str(answer.asking.person.user_id),
            session_id=str(answer.asking.session_id),
        )
    finally:
        await root.close()
    assert session is not None
    headers = world.remote.arrived[0].headers
    return session, [ARGUMENT, MARKER_ROW, headers[GRANT_HEADER.lower()][:40], headers["authorization"][7:47]]


def dump(session: Session) -> str:
    return session.model_dump_json()


async def test_no_token_argument_or_row_enters_the_session(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    session, secrets = await kept_session(world, monkeypatch)
    assert [secret for secret in secrets if secret in dump(session)] == []


async def test_base64_of_a_row_does_not_enter_the_session_either(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = await kept_session(world, monkeypatch)
    assert all(event.custom_metadata is None for event in session.events)


async def test_a_refusal_leaves_codes_in_the_session_and_no_foreign_text(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(arrived: Arrived) -> Task:
        return rejected("INSUFFICIENT_PRIVILEGE", "REFUSED", "BPD-DATA-014")

    world.remote.script = refuse
    session, _ = await kept_session(world, monkeypatch)
    executed = [event for event in session.events if "execute" in (event.node_info.path or "")]
    assert executed and all(event.content is None for event in executed)
    assert "the remote says so" not in dump(session)


async def test_state_is_never_written(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = await kept_session(world, monkeypatch)
    assert session.state == {} and not any(event.actions.state_delta for event in session.events)


async def test_nothing_is_logged_at_debug_level(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        _, secrets = await kept_session(world, monkeypatch)
    assert [secret for secret in secrets if secret in caplog.text] == []


async def test_an_unforeseen_fault_is_logged_by_its_type_only(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(MARKER_ROW)

    monkeypatch.setattr("root_agent.ask.verify_reply", fail)
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), call=CALL)
    await root.close()
    assert answer.decision.reason.value == "EXECUTION_FAILED"
    assert "RuntimeError" in caplog.text and MARKER_ROW not in caplog.text


async def test_nothing_is_in_a_span(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    _, secrets = await kept_session(world, monkeypatch)
    spans = json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()])
    assert exporter.get_finished_spans() and [secret for secret in secrets if secret in spans] == []


async def test_nothing_is_in_the_ledger(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secrets = await kept_session(world, monkeypatch)
    stored = b"".join(path.read_bytes() for path in world.service.ledger.path.parent.glob("root.sqlite*"))
    assert [secret for secret in secrets if secret.encode() in stored] == []


@pytest.mark.parametrize(
    "name", ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"]
)
@pytest.mark.parametrize("value", ["true", "1", "SPAN_ONLY", "span_and_event"])
def test_a_start_with_content_capture_on_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(DatasetAgentError, match=name):
        refuse_content_capture(Component.ROOT_AGENT)


def test_libraries_that_log_content_stay_at_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("google_adk").setLevel(logging.DEBUG)
    quiet_content_loggers()
    assert logging.getLogger("google_adk").level == logging.WARNING
