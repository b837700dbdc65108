"""A root agent fetches what an answer did not bring: from the agent itself, again where it broke off, and keeps nothing."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from google.adk.sessions import InMemorySessionService
from starlette.applications import Starlette
from starlette.routing import Route

from contract.call import ARROW_MEDIA_TYPE
from contract.canonical import sha256_hex
from contract.result import StoredResult
from contract.settings import Settings
from contract.verdict import NotGranted, Reason, Verdict
from control_plane.descriptor import DatasetDescriptor
from dataset_agent.login import identity_token
from delegation.receipt import verify_reply
from grants.mint import mint_root
from root_agent.app import build_app
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from root_agent.identity import RequestContext
from root_agent.opening import close_service, load_world, open_service
from root_agent.results import fetch_result
from root_agent.results_relay import PATH, RelayDoor, Waiting, _Pipe
from root_agent.service import Service
from tests.large_world import DATASET, MARKER, large_agent, write_people
from tests.running_agent import RunningAgent

ROWS = 30_000


@dataclass
class Meddler:
    """Between the dataset agent and its clients: what is done to answers of ``GET /results``, one after another."""

    deeds: list[str]
    seen: int = 0

    def __call__(self, app: Any, _: Any) -> Any:
        async def between(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or not scope["path"].startswith("/results/"):
                await app(scope, receive, send)
                return
            self.seen += 1
            deed, handed = (self.deeds.pop(0) if self.deeds else ""), 0

            async def meddled(message: Any) -> None:
                nonlocal handed
                if deed == "break" and message["type"] == "http.response.body":
                    if handed:
                        raise ConnectionError
                    message = {**message, "more_body": True}
                    handed += 1
                if deed == "change" and message.get("body"):
                    message = {**message, "body": b"9" + message["body"][1:]}
                await send(message)

            await app(scope, receive, meddled)

        return between


@dataclass
class Both:
    """A running dataset agent, what stands before it, and the root agent's settings."""

    agent: RunningAgent
    meddler: Meddler

    @property
    def settings(self) -> Settings:
        return self.agent.settings.model_copy(update={"url": self.agent.url})


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    meddler = Meddler([])
    with large_agent(tmp_path_factory.mktemp("root"), rows=ROWS, wrap=meddler) as agent:
        yield Both(agent, meddler)


@asynccontextmanager
async def asked(both: Both, *, media_type: str = "application/json") -> AsyncIterator[tuple[Answer, Service]]:
    """A granted answer whose rows wait."""
    service = open_service(both.settings)
    root = RootAgent(service)
    try:
        principal = service.world.directory.named("engineer")
        assert principal is not None
        person = RequestContext(principal.issuer, principal.subject)
        call = {"dataset": DATASET, "capability": "list", "arguments": {"below": ROWS}}
        yield await root.ask_for(person, call=call, media_type=media_type), service
    finally:
        await root.close()
        await close_service(service)


def stored_of(answer: Answer) -> StoredResult:
    assert answer.verdict is Verdict.GRANTED
    assert isinstance(answer.document, StoredResult)
    return answer.document


async def fetched(answer: Answer, service: Service) -> bytes:
    sink = io.BytesIO()
    await fetch_result(answer, service, sink)
    return sink.getvalue()


async def refused(answer: Answer, service: Service) -> Reason:
    with pytest.raises(NotGranted) as stop:
        await fetched(answer, service)
    return stop.value.reason


def root_rows(both: Both) -> list[dict[str, Any]]:
    with sqlite3.connect(both.settings.home / "root" / "ledger.sqlite") as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM entries ORDER BY idx")]


async def test_rows_are_fetched_and_the_root_has_one_row(both: Both) -> None:
    before = len(root_rows(both)) if (both.settings.home / "root").exists() else 0
    async with asked(both) as (answer, service):
        body = await fetched(answer, service)
        assert sha256_hex(body) == stored_of(answer).digest
    assert [row["kind"] for row in root_rows(both)[before:]] == ["terminal"]


async def test_what_breaks_off_goes_on_under_leaves_of_its_own(both: Both) -> None:
    async with asked(both, media_type=ARROW_MEDIA_TYPE) as (answer, service):
        both.meddler.deeds[:] = ["break"]
        before = len(both.agent.rows())
        body = await fetched(answer, service)
    assert sha256_hex(body) == stored_of(answer).digest
    rows = [row.cells for row in both.agent.rows()[before:] if row.cells["kind"] == "release_started"]
    assert len({row["leaf_jti"] for row in rows}) == len(rows) == 2
    assert len({row["root_jti"] for row in rows}) == 1


async def test_bytes_that_were_changed_on_their_way_are_an_incident_with_a_row(both: Both) -> None:
    async with asked(both) as (answer, service):
        both.meddler.deeds[:] = ["change"]
        assert await refused(answer, service) is Reason.REMOTE_PROVENANCE_INVALID
    blocked = root_rows(both)[-1]
    assert (blocked["kind"], blocked["reason"]) == ("blocked", "REMOTE_PROVENANCE_INVALID")
    assert blocked["caused_by"] == answer.decision.decision_id


async def test_an_address_elsewhere_is_not_asked(both: Both) -> None:
    async with asked(both) as (answer, service):
        before = both.meddler.seen
        elsewhere = replace(stored_of(answer), url="http://127.0.0.1:1/results/" + stored_of(answer).result_id)
        assert await refused(replace(answer, document=elsewhere), service) is Reason.REMOTE_RESPONSE_INVALID
        assert both.meddler.seen == before


def judged(
    answer: Answer, service: Service, *, form: str = "application/json", most: int = ROWS, **told: object
) -> None:
    """The reply judged again, as if it had told something else of the result, or other things had been asked for."""
    asking = answer.asking
    assert (
        asking.reply is not None and asking.plan is not None and asking.sent is not None and asking.target is not None
    )
    descriptor = asking.target.descriptor
    assert isinstance(descriptor, DatasetDescriptor)
    capabilities = tuple(held.model_copy(update={"max_rows": most}) for held in descriptor.capabilities)
    verify_reply(
        replace(asking.reply, stored=replace(stored_of(answer), **told)),  # type: ignore[arg-type]
        plan=replace(asking.plan, media_type=form),
        sent=asking.sent,
        descriptor=descriptor.model_copy(update={"capabilities": capabilities}),
        trust=service.trust,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"form": ARROW_MEDIA_TYPE},
        {"media_type": ARROW_MEDIA_TYPE, "form": ARROW_MEDIA_TYPE},
        {"most": 5},
        {"digest": "0" * 64},
        {"size": 1},
        {"row_count": 1},
        {"truncated": True},
        {"as_of": "2026-08-30T00:00:00.000000Z"},
    ],
    ids=str,
)
async def test_what_is_told_of_a_result_is_what_was_signed_and_asked_for(both: Both, changes: dict[str, Any]) -> None:
    async with asked(both) as (answer, service):
        judged(answer, service)
        with pytest.raises(NotGranted) as stop:
            judged(answer, service, **changes)
        assert stop.value.reason is Reason.REMOTE_PROVENANCE_INVALID


def expired(answer: Answer, service: Service) -> Answer:
    """The answer as if its root token had ended meanwhile."""
    asking = answer.asking
    assert asking.plan is not None and asking.admitted is not None and asking.principal is not None
    old = mint_root(
        service.issuer,
        issuer_url=service.issuer_url,
        decision=asking.admitted,
        principal=asking.principal,
        holder=service.holder_entry,
        scope=asking.plan.scope,
        intent="list",
        rctx={"trace_id": asking.trace_id},
        now=time.time() - 400,
    )
    return replace(answer, asking=replace(asking, plan=replace(asking.plan, chain=(old,))))


async def test_where_the_root_token_ended_the_call_is_admitted_again(both: Both) -> None:
    async with asked(both) as (answer, service):
        body = await fetched(expired(answer, service), service)
        assert sha256_hex(body) == stored_of(answer).digest


async def test_and_refused_where_it_would_not_be_admitted_any_more(both: Both) -> None:
    folder = both.settings.datasets
    async with asked(both) as (answer, service):
        write_people(folder, {"engineer": ["Basel", "Visp"]}, entitled=())
        try:
            service.world = load_world(both.settings)
            assert await refused(expired(answer, service), service) is Reason.INSUFFICIENT_PRIVILEGE
        finally:
            write_people(folder, {"engineer": ["Basel", "Visp"], "colleague": ["Basel", "Visp"]})


def signed_out(answer: Answer) -> Answer:
    """The answer as if the identity token of who asked had ended meanwhile, and the root token too."""
    return replace(answer, asking=replace(answer.asking, person=replace(answer.asking.person, until=time.time() - 1)))


async def test_nothing_is_admitted_again_for_whom_no_token_names_any_more(both: Both) -> None:
    async with asked(both) as (answer, service):
        before = both.meddler.seen
        assert await refused(signed_out(expired(answer, service)), service) is Reason.GRANT_EXPIRED
        assert both.meddler.seen <= before + 1


async def test_who_fetches_with_a_token_of_now_is_admitted_again_by_that_one(both: Both) -> None:
    async with asked(both) as (answer, service):
        waiting = Waiting(service.clock)
        waiting.keep(signed_out(expired(answer, service)))
        door = RelayDoor(service, waiting, lambda request: request.headers["authorization"].removeprefix("Bearer "))
        transport = httpx.ASGITransport(Starlette(routes=[Route(PATH, door)]))
        async with httpx.AsyncClient(transport=transport, base_url="http://root") as client:
            response = await client.get(f"/results/{stored_of(answer).result_id}", headers=person(both))
        assert (response.status_code, sha256_hex(response.content)) == (200, stored_of(answer).digest)


async def test_a_result_that_is_gone_is_the_agents_own_reason(both: Both) -> None:
    async with asked(both) as (answer, service):
        both.agent.lifecycle.service.spool.drop(stored_of(answer).result_id)
        assert await refused(answer, service) is Reason.RESULT_NOT_FOUND


async def test_rows_stay_out_of_sessions_logs_and_files(
    both: Both, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []
    append = InMemorySessionService.append_event

    async def recording(self: InMemorySessionService, session: Any, event: Any) -> Any:
        events.append(event.model_dump_json())
        return await append(self, session, event)

    monkeypatch.setattr(InMemorySessionService, "append_event", recording)
    caplog.set_level(logging.DEBUG)
    async with asked(both) as (answer, service):
        assert MARKER.encode() in await fetched(answer, service)
    on_disk = "".join(
        path.read_bytes().decode("latin-1") for path in (both.settings.home / "root").rglob("*") if path.is_file()
    )
    assert events
    assert MARKER not in "".join(events) + caplog.text + on_disk


@pytest.fixture
async def client(both: Both) -> AsyncIterator[httpx.AsyncClient]:
    service = open_service(both.settings)
    transport = httpx.ASGITransport(app=build_app(service, max_body_bytes=10_000), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as opened:
        yield opened
    await close_service(service)


def person(both: Both, who: str = "engineer") -> dict[str, str]:
    return {"Authorization": f"Bearer {identity_token(both.settings, who)}"}


CALL = {"dataset": DATASET, "capability": "list", "arguments": {"below": ROWS}}


async def test_an_application_fetches_by_the_root_agent(both: Both, client: httpx.AsyncClient) -> None:
    told = (await client.post("/ask", json=CALL, headers=person(both), timeout=30)).json()["result"]
    assert told["rows"] is None
    response = await client.get(f"/results/{told['result_id']}", headers=person(both))
    assert (response.status_code, sha256_hex(response.content)) == (200, told["sha256"])
    assert response.headers["content-type"] == told["media_type"] == "application/json"
    assert json.loads(response.content)["row_count"] == told["row_count"]


async def test_an_application_names_the_form(both: Both, client: httpx.AsyncClient) -> None:
    arrow = {**CALL, "media_type": ARROW_MEDIA_TYPE, "arguments": {"below": 3}}
    told = (await client.post("/ask", json=arrow, headers=person(both), timeout=30)).json()["result"]
    response = await client.get(f"/results/{told['result_id']}", headers=person(both))
    assert (response.headers["content-type"], len(response.content)) == (ARROW_MEDIA_TYPE, told["size"])
    other = await client.post("/ask", json={**CALL, "media_type": "text/csv"}, headers=person(both))
    assert (other.status_code, other.json()["code"]) == (400, "root_agent.ask.form")


async def test_only_the_person_who_asked_finds_it(both: Both, client: httpx.AsyncClient) -> None:
    told = (await client.post("/ask", json=CALL, headers=person(both), timeout=30)).json()["result"]
    path = f"/results/{told['result_id']}"
    others = await client.get(path, headers=person(both, "colleague"))
    never = await client.get("/results/task-0", headers=person(both))
    assert (others.status_code, others.json()) == (404, never.json())
    assert (await client.get(path)).status_code == 401
    assert (await client.head(path, headers=person(both))).status_code == 405


async def test_an_application_gets_no_last_byte_of_what_was_changed(both: Both, client: httpx.AsyncClient) -> None:
    told = (await client.post("/ask", json=CALL, headers=person(both), timeout=30)).json()["result"]
    both.meddler.deeds[:] = ["change"]
    started, *bodies = await handed_over(client, f"/results/{told['result_id']}", person(both))
    assert started["status"] == 200
    assert 0 < sum(len(message["body"]) for message in bodies) < told["size"]
    assert all(message["more_body"] for message in bodies)


async def handed_over(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> list[dict[str, Any]]:
    """What an application hands to its server, which may be less than a whole response."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(30)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    transport: Any = client._transport
    await transport.app(scope, receive, send)
    return sent


async def test_a_reason_is_told_where_nothing_was_sent_yet(both: Both, client: httpx.AsyncClient) -> None:
    told = (await client.post("/ask", json=CALL, headers=person(both), timeout=30)).json()["result"]
    both.agent.lifecycle.service.spool.drop(told["result_id"])
    response = await client.get(f"/results/{told['result_id']}", headers=person(both))
    assert (response.status_code, response.json()["reason"]) == (404, "RESULT_NOT_FOUND")


async def test_a_writer_waits_for_its_reader() -> None:
    pipe, written = _Pipe(), []

    async def write() -> None:
        for number in range(20):
            await pipe.write(b"%d" % number)
            written.append(number)
        pipe.end()

    writing = asyncio.ensure_future(write())
    await asyncio.sleep(0.01)
    assert len(written) < 10
    read = []
    while (piece := await pipe.piece()) is not None:
        read.append(piece)
    await writing
    assert [*read, pipe.last] == [b"%d" % number for number in range(20)]
