"""``POST /ask`` and the other ways in: the opened service, the ADK folder, the settings."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Task
from google.adk.apps.app import App

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from evidence import arrivals
from evidence.row import Side
from grants.keys import init_keys
from grants.trust import load_trust
from grants.trust_editor import edit_trust
from quota.limiter import Limiter, Quota
from quota.rate import Rate
from quota.sqlite_store import SqliteQuotas
from quota.store import Names
from root_agent.app import build_app
from root_agent.entry import ask
from root_agent.opening import close_service, dataset_agents, load_world, open_service
from tests.root_agent.root_world import MARKER_ROW, QUESTION, ROOT_ID, RootWorld
from tests.root_agent.scripted_remote import Arrived, listening


@pytest.fixture
async def client(world: RootWorld) -> AsyncIterator[httpx.AsyncClient]:
    # What an application raises, a server prints with its text: so nothing may be raised.
    transport = httpx.ASGITransport(app=build_app(world.service, max_body_bytes=10_000), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as opened:
        yield opened


def bearer(world: RootWorld, who: str = "process_engineer") -> dict[str, str]:
    return {"Authorization": f"Bearer {world.token(who)}"}


async def test_a_question_is_answered_with_the_view_of_the_design(client: httpx.AsyncClient, world: RootWorld) -> None:
    view = (await client.post("/ask", json={"question": QUESTION}, headers=bearer(world))).json()
    members = "verdict decision remote dataset dataset_version revision capability arguments agent cache result"
    members += " provenance visited_nodes tool_calls mcp_calls a2a_calls attempts evidence"
    assert set(members.split()) <= set(view) and view["verdict"] == "GRANTED"


async def test_a_typed_call_is_answered_too(client: httpx.AsyncClient, world: RootWorld) -> None:
    call = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": "B001"}}
    response = await client.post("/ask", json=call, headers=bearer(world))
    assert response.json()["verdict"] == "GRANTED"


async def test_a_refusal_is_an_answer_and_no_http_error(client: httpx.AsyncClient, world: RootWorld) -> None:
    response = await client.post("/ask", json={"question": QUESTION}, headers=bearer(world, "external_auditor"))
    assert (response.status_code, response.json()["verdict"]) == (200, "REFUSED")


async def test_answers_are_not_stored_by_anybody_between(client: httpx.AsyncClient, world: RootWorld) -> None:
    response = await client.post("/ask", json={"question": QUESTION}, headers=bearer(world))
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic x"}, {"Authorization": "Bearer x.y.z"}])
async def test_without_an_identity_it_is_401_with_problem_details(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    response = await client.post("/ask", json={"question": QUESTION}, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (401, "application/problem+json")
    assert "www-authenticate" in response.headers


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        ("", 'Bearer realm="dataset-agent"'),
        ("Bearer", 'Bearer realm="dataset-agent"'),
        ("Basic eDp5", 'Bearer realm="dataset-agent"'),
        (
            "Bearer x.y.z",
            'Bearer realm="dataset-agent", error="invalid_token", error_description="the bearer token is not base64url"',
        ),
    ],
)
async def test_the_challenge_says_whether_there_was_a_token_and_what_was_wrong_with_it(
    client: httpx.AsyncClient, header: str, challenge: str
) -> None:
    headers = {"Authorization": header} if header else {}
    response = await client.post("/ask", json={"question": QUESTION}, headers=headers)
    assert response.headers.get_list("www-authenticate") == [challenge]


@pytest.mark.parametrize("body", [b"not json", b"x" * 20_000], ids=["no json", "too large"])
async def test_who_asks_is_settled_before_the_body_is_looked_at(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post("/ask", content=body, headers={"Authorization": "Bearer x.y.z"})
    assert response.status_code == 401


async def test_nobody_is_answered_before_a_byte_of_the_body_was_sent(world: RootWorld) -> None:
    async with listening(build_app(world.service, max_body_bytes=10_000)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /ask HTTP/1.1\r\nHost: root\r\nContent-Length: 9000\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()


async def test_a_refused_person_leaves_a_line_with_the_code_no_token_and_no_row(
    client: httpx.AsyncClient, world: RootWorld, caplog: pytest.LogCaptureFixture
) -> None:
    token = world.token("process_engineer", audience="another")
    with caplog.at_level(logging.DEBUG):
        response = await client.post("/ask", json={"question": QUESTION}, headers={"Authorization": f"Bearer {token}"})
    assert response.json()["code"] == "control_plane.identity.audience"
    lines = [record.getMessage() for record in caplog.records if record.name == "root_agent.app"]
    assert lines == ["a request without a verified person was refused: control_plane.identity.audience"]
    assert token not in caplog.text and token.split(".")[1] not in caplog.text + response.text
    assert world.service.ledger.size == 0


async def test_two_authorization_headers_name_nobody(client: httpx.AsyncClient, world: RootWorld) -> None:
    twice = [("Authorization", value) for value in (bearer(world)["Authorization"], "Bearer x.y.z")]
    response = await client.post("/ask", json={"question": QUESTION}, headers=twice)
    assert (response.status_code, response.json()["code"]) == (401, "root_agent.person.missing")


async def test_with_neither_issuer_nobody_is_anybody(client: httpx.AsyncClient, world: RootWorld) -> None:
    world.service.accept_development_issuer = False
    response = await client.post("/ask", json={"question": QUESTION}, headers=bearer(world))
    assert (response.status_code, response.json()["code"]) == (401, "root_agent.person.nobody")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"not json", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"question":"a","question":"b"}', 400),
        (b'{"question":"a","as":"admin"}', 400),
        (b'{"question":""}', 400),
        (b'{"dataset":"d","capability":"c"}', 400),
        (b'{"dataset":"d","capability":"c","arguments":{},"task":7}', 400),
        (b'{"dataset":"d","capability":"c","arguments":{},"task":"a\\nb"}', 400),
        (b'{"question":"a","task":"t"}', 400),
        (b'{"question":"' + b"x" * 5_000 + b'"}', 400),
        (b'{"question":"' + b"x" * 20_000 + b'"}', 413),
    ],
)
async def test_bad_bodies_are_one_line_that_says_what_to_do(
    client: httpx.AsyncClient, world: RootWorld, body: bytes, status: int
) -> None:
    response = await client.post("/ask", content=body, headers=bearer(world))
    assert response.status_code == status and response.json()["detail"]


async def test_a_body_of_another_form_is_told_every_member_that_there_is(
    client: httpx.AsyncClient, world: RootWorld
) -> None:
    body = b'{"question":"a","max_age":5}'
    told = (await client.post("/ask", content=body, headers=bearer(world))).json()["detail"]
    assert told.endswith("and beside them only max_age_s, media_type, schema_version, via, zone")
    assert "max_age," not in told


class Caller:
    """One HTTP request as a server hands it to the application; ``leave`` is the client closing its connection."""

    def __init__(self, world: RootWorld, body: bytes) -> None:
        token = bearer(world)["Authorization"].encode()
        headers = [(b"authorization", token), (b"content-type", b"application/json")]
        self.scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"", "headers": headers}
        self.scope |= {"http_version": "1.1", "scheme": "http", "server": ("root", 80), "root_path": ""}
        self.sent: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> dict[str, Any]:
        return await self._incoming.get()

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def slow(world: RootWorld) -> asyncio.Event:
    """The remote takes its time; set once a call has arrived there."""
    arrived = asyncio.Event()

    async def script(message: Arrived) -> Task:
        arrived.set()
        await asyncio.sleep(0.3)
        return await world.honest(message)

    world.remote.script = script
    return arrived


async def test_a_client_that_leaves_cancels_its_run_and_one_row_says_so(world: RootWorld) -> None:
    app = build_app(world.service, max_body_bytes=10_000)
    arrived = slow(world)
    caller = Caller(world, json.dumps({"question": QUESTION}).encode())
    answering = asyncio.ensure_future(app(caller.scope, caller.receive, caller.send))
    await arrived.wait()
    caller.leave()
    await answering
    assert [row.cells["reason"] for row in world.service.ledger.rows()] == ["CANCELLED"]
    assert MARKER_ROW not in str(caller.sent)


async def test_a_client_that_leaves_is_noticed_on_a_real_connection(world: RootWorld) -> None:
    arrived = slow(world)
    body = json.dumps({"question": QUESTION}).encode()
    head = f"POST /ask HTTP/1.1\r\nHost: root\r\nAuthorization: {bearer(world)['Authorization']}\r\n"
    async with listening(build_app(world.service, max_body_bytes=10_000)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await arrived.wait()
        writer.close()
        while not world.service.ledger.size:
            await asyncio.sleep(0.005)
        assert [row.cells["reason"] for row in world.service.ledger.rows()] == ["CANCELLED"]


async def test_a_server_that_stops_cancels_the_run_and_waits_for_its_row(world: RootWorld) -> None:
    app = build_app(world.service, max_body_bytes=10_000)
    arrived = slow(world)
    caller = Caller(world, json.dumps({"question": QUESTION}).encode())
    answering = asyncio.ensure_future(app(caller.scope, caller.receive, caller.send))
    await arrived.wait()
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert [row.cells["reason"] for row in world.service.ledger.rows()] == ["CANCELLED"]


async def test_a_client_that_leaves_before_it_has_asked_leaves_no_row(world: RootWorld) -> None:
    caller = Caller(world, b"")
    await caller.receive()
    caller.leave()
    await build_app(world.service, max_body_bytes=10_000)(caller.scope, caller.receive, caller.send)
    assert world.service.ledger.size == 0


async def test_a_client_that_stays_is_answered_while_its_connection_is_watched(world: RootWorld) -> None:
    caller = Caller(world, json.dumps({"question": QUESTION}).encode())
    await build_app(world.service, max_body_bytes=10_000)(caller.scope, caller.receive, caller.send)
    assert caller.sent[0]["status"] == 200 and MARKER_ROW in str(caller.sent)


async def test_an_unforeseen_fault_is_a_problem_without_its_text(
    client: httpx.AsyncClient, world: RootWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("root_agent.app.to_json", fail)
    response = await client.post("/ask", json={"question": QUESTION}, headers=bearer(world))
    assert response.status_code == 500 and "secret" not in response.text + caplog.text


async def test_health_and_readiness_answer_without_credentials(client: httpx.AsyncClient) -> None:
    health, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (health.status_code, ready.status_code) == (200, 200)
    assert (health.json()["status"], ready.json()["status"]) == ("ok", "ready")  # the words of a dataset agent


async def test_without_a_ledger_it_is_not_ready(client: httpx.AsyncClient, world: RootWorld) -> None:
    world.service.ledger.close()
    unready = await client.get("/readyz")
    assert (unready.status_code, unready.json()["status"]) == (503, "unready")


async def test_strangers_who_ask_at_once_share_what_the_ledger_says(
    client: httpx.AsyncClient, world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, inner = [], world.service.ledger.health

    def health() -> None:
        looks.append(1)
        inner()

    monkeypatch.setattr(world.service.ledger, "health", health)
    replies = await asyncio.gather(*(client.get("/readyz") for _ in range(60)))
    assert {reply.status_code for reply in replies} == {200}
    assert len(looks) < 15


async def test_one_call_is_enough_for_a_command(world: RootWorld) -> None:
    answer = await ask(world.service, world.token("process_engineer"), question=QUESTION)
    assert answer.document is not None


def settings(home: Path, **changes: Any) -> Settings:
    return Settings(home=home, **changes)


async def test_a_service_opens_from_settings_after_keys_init(tmp_path: Path) -> None:
    init_keys(settings(tmp_path))
    service = open_service(settings(tmp_path))
    assert [agent.id for agent, _ in service.agents] == ["urn:dataset-agent:remote"]
    await close_service(service)


def test_without_keys_the_fault_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="keys init"):
        open_service(settings(tmp_path))


def test_a_holder_key_that_is_not_pinned_is_a_configuration_fault(tmp_path: Path) -> None:
    init_keys(settings(tmp_path / "a"))
    init_keys(settings(tmp_path / "b"))
    with pytest.raises(DatasetAgentError) as fault:
        open_service(settings(tmp_path / "a", trust_file=tmp_path / "b" / "trust.toml"))
    assert (fault.value.code, fault.value.category) == ("root_agent.trust.holder", Category.CONFIGURATION)
    assert "bring the newest trust.toml" in fault.value.message
    assert "keys init" not in fault.value.message


def test_a_holder_that_the_trust_file_does_not_have_is_entered_by_keys_init(tmp_path: Path) -> None:
    init_keys(settings(tmp_path))
    with edit_trust(settings(tmp_path).trust_path) as editor:
        others = {name: agent for name, agent in editor.trust.agents.items() if name != settings(tmp_path).root_id}
        editor.trust = replace(editor.trust, agents=others)
    with pytest.raises(DatasetAgentError, match="keys init") as fault:
        open_service(settings(tmp_path))
    assert fault.value.code == "root_agent.trust.holder"


def test_the_setting_for_the_address_wins_for_the_configured_agent(tmp_path: Path) -> None:
    init_keys(settings(tmp_path))
    trust = load_trust(settings(tmp_path).trust_path)
    ((_, url),) = dataset_agents(settings(tmp_path, url="http://127.0.0.1:9901"), trust)
    assert url == "http://127.0.0.1:9901"


def test_a_trust_file_without_a_dataset_agent_says_so(tmp_path: Path) -> None:
    init_keys(settings(tmp_path), roles=("issuer", "root"))
    with pytest.raises(DatasetAgentError, match="names no dataset agent"):
        dataset_agents(settings(tmp_path), load_trust(settings(tmp_path).trust_path))


def test_a_policy_server_is_used_where_one_is_configured(tmp_path: Path) -> None:
    world = load_world(settings(tmp_path, policy_url="http://127.0.0.1:8802"))
    assert type(world.evaluator).__name__ == "HttpEvaluator"


def test_adk_finds_the_app_and_the_root_agent_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATASET_AGENT_HOME", str(tmp_path))
    from root_agent import agent

    assert isinstance(agent.app, App) and agent.root_agent is agent.app.root_agent


def test_no_instruction_of_the_root_holds_governance() -> None:
    from root_agent.propose import _INSTRUCTION

    words = ("policy", "permission", "permitted", "allowed", "check whether", "authoriz", "grant")
    assert [word for word in words if word in json.dumps(_INSTRUCTION).lower()] == []


async def test_a_person_over_the_rate_is_answered_429_and_others_are_not(
    client: httpx.AsyncClient, world: RootWorld, tmp_path: Path
) -> None:
    limits = Limiter(
        SqliteQuotas(tmp_path / "quota.sqlite3"), agent=Quota(), person=Quota(Rate(0.01, 2)), names=Names(b"s" * 32)
    )
    world.service.limiter = limits
    told = [await client.post("/ask", json={"question": QUESTION}, headers=bearer(world)) for _ in range(3)]
    assert [one.status_code for one in told] == [200, 200, 429]
    assert 90 <= int(told[2].headers["retry-after"]) <= 100
    assert told[2].json()["code"] == "root_agent.limit.rate"
    other = await client.post("/ask", json={"question": QUESTION}, headers=bearer(world, "external_auditor"))
    assert other.status_code == 200


async def test_a_person_with_too_many_askings_under_way_is_answered_429_and_others_are_not(
    client: httpx.AsyncClient, world: RootWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.service.ledger.attend(tmp_path / "arrivals", side=Side.ROOT, agent_id=ROOT_ID, now=0.0)
    monkeypatch.setattr(arrivals, "_OF_PERSON", 0)
    told = await client.post("/ask", json={"question": QUESTION}, headers=bearer(world))
    assert (told.status_code, told.json()["code"]) == (429, "root_agent.limit.under_way")
    assert told.headers["retry-after"] == "1"
    monkeypatch.undo()
    assert (await client.post("/ask", json={"question": QUESTION}, headers=bearer(world))).status_code == 200
