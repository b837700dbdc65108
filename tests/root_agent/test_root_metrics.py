"""What a root agent tells of itself: how askings ended, and nothing of what was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cache.memo import Memo
from cache.memo_keys import MemoKeys
from cache.sqlite_store import SqliteStore
from contract.bearer_token import BearerToken
from contract.verdict import VERDICTS, NotGranted, Reason
from root_agent.app import build_app
from root_agent.measures import NODES
from root_agent.workflow import Nodes
from tests.metrics.scraping import Scraped
from tests.root_agent.root_world import MARKER_ROW, QUESTION, RootWorld

GRANTED = {"verdict": "GRANTED", "reason": "PRINCIPAL_AUTHORIZED"}
TOKEN = "scraper-" + "s" * 32
PATH = [name for name in NODES if name not in ("record_refusal", "record_indeterminate", "await_approval")]


@pytest.fixture
async def client(world: RootWorld, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    world.service.memo = Memo(SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20), MemoKeys(bytes(32)), ttl_s=86_400)
    world.service.metrics_token = BearerToken.of(TOKEN)
    transport = httpx.ASGITransport(app=build_app(world.service, max_body_bytes=10_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as opened:
        yield opened


async def ask(client: httpx.AsyncClient, world: RootWorld, who: str = "process_engineer", **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {world.token(who)}"}
    return (await client.post("/ask", json=body or {"question": QUESTION}, headers=headers)).json()


async def told(client: httpx.AsyncClient) -> Scraped:
    response = await client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert response.status_code == 200, response.text
    return Scraped(response.text)


async def test_an_asking_is_counted_once_with_each_of_its_steps_and_what_the_dataset_agent_replied(
    client: httpx.AsyncClient, world: RootWorld
) -> None:
    assert (await ask(client, world))["verdict"] == "GRANTED"
    found = await told(client)
    assert found.of("dataset_agent_root_asks_total", **GRANTED) == 1
    assert found.of("dataset_agent_root_ask_seconds_count") == 1
    assert [found.of("dataset_agent_root_step_seconds_count", step=name) for name in PATH] == [1] * len(PATH)
    assert found.of("dataset_agent_root_step_seconds_count", step="record_refusal") == 0
    assert found.of("dataset_agent_root_remote_outcomes_total", outcome="COMPLETED", reason="") == 1
    assert found.of("dataset_agent_root_evidence_rows") == 1
    assert found.of("dataset_agent_root_asks_in_flight") == 0
    assert found.of("dataset_agent_root_store_up", store="ledger") == 1
    assert found.of("dataset_agent_root_store_up", store="memo") == 1
    assert not found.has("dataset_agent_root_store_up", store="identity_provider")


async def test_a_refusal_is_counted_by_its_reason_and_nobody_is_asked(
    client: httpx.AsyncClient, world: RootWorld
) -> None:
    view = await ask(client, world, "external_auditor")
    found = await told(client)
    outcome = {"verdict": view["decision"]["verdict"], "reason": view["decision"]["reason"]}
    assert outcome["verdict"] == "REFUSED"
    assert found.of("dataset_agent_root_asks_total", **outcome) == 1
    assert found.of("dataset_agent_root_step_seconds_count", step="record_refusal") == 1
    assert sum(value for key, value in found.items() if key[0] == "dataset_agent_root_remote_outcomes_total") == 0


async def test_who_is_unknown_is_counted_at_the_door(client: httpx.AsyncClient, world: RootWorld) -> None:
    assert (await client.post("/ask", json={"question": QUESTION})).status_code == 401
    assert (await client.get("/metrics")).status_code == 401
    found = await told(client)
    for door in ("people", "metrics"):
        assert found.of("dataset_agent_root_unauthenticated_total", door=door) == 1
    assert sum(value for key, value in found.items() if key[0] == "dataset_agent_root_asks_total") == 0


async def test_words_that_were_read_before_are_told_apart_from_others(
    client: httpx.AsyncClient, world: RootWorld
) -> None:
    words = "recovery of batches B001 beside"
    for text in (words, words):
        await ask(client, world, question=text)
    found = await told(client)
    looked = {key[1][0][1]: value for key, value in found.items() if key[0] == "dataset_agent_root_memo_lookups_total"}
    assert sum(looked.values()) == 2
    assert set(looked) == {"exact", "alike", "none"}


async def test_of_a_restricted_capability_neither_the_call_nor_the_whole_is_timed(
    client: httpx.AsyncClient, world: RootWorld
) -> None:
    view = await ask(
        client,
        world,
        "clinical_reviewer",
        dataset="clinical-private",
        capability="aggregate",
        arguments={"metric": "crp"},
    )
    found = await told(client)
    assert found.of("dataset_agent_root_step_seconds_count", step="evaluate_admission") == 1, view
    assert sum(value for key, value in found.items() if key[0] == "dataset_agent_root_asks_total") == 1
    assert found.of("dataset_agent_root_ask_seconds_count") == 0
    assert found.of("dataset_agent_root_step_seconds_count", step="execute") == 0


async def test_no_word_row_token_or_name_of_an_asking_is_told(client: httpx.AsyncClient, world: RootWorld) -> None:
    views = [await ask(client, world, who) for who in ("process_engineer", "external_auditor")]
    views.append(await ask(client, world, question="zebra crossing 9000"))
    views.append(await ask(client, world, dataset="nowhere", capability="search", arguments={"query": "zebra"}))
    text = (await told(client)).text
    public = {verdict.value for verdict in VERDICTS.values()} | {reason.value for reason in VERDICTS}
    decided = {str(value) for view in views for value in view["decision"].values() if len(str(value)) >= 5} - public
    secrets = {QUESTION, MARKER_ROW, TOKEN, "zebra", "nowhere", "B001", "process_engineer", "u-eng", "acme", *decided}
    secrets |= {world.token("process_engineer"), "purification-batches", "compare_batches", world.service.root_id}
    assert [secret for secret in secrets if secret in text] == []
    assert world.service.world.policy_version not in text


async def test_without_a_token_it_answers_this_machine_only_where_it_was_told_to(world: RootWorld) -> None:
    for at_home, expected in ((True, 200), (False, 404)):
        world.service.metrics_at_home = at_home
        transport = httpx.ASGITransport(app=build_app(world.service, max_body_bytes=10_000), client=("127.0.0.1", 9))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.get("/metrics")).status_code == expected


async def test_grants_are_counted_as_made_or_by_why_they_were_not(
    client: httpx.AsyncClient, world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotGranted(Reason.GRANT_WIDENED, "the plan is not a call of its grant")

    name = "dataset_agent_root_grants_total"
    await ask(client, world)
    made = await told(client)
    assert [made.of(name, kind=kind, outcome="made") for kind in ("root", "leaf")] == [1, 1]
    monkeypatch.setattr("root_agent.ask.send_with_leaf", refuse)
    await ask(client, world)
    found = await told(client)
    assert [found.of(name, kind=kind, outcome="made") for kind in ("root", "leaf")] == [2, 1]
    assert found.of(name, kind="leaf", outcome="GRANT_WIDENED") == 1


def test_every_node_of_the_workflow_is_timed_under_its_name() -> None:
    assert set(NODES) == {name for name in vars(Nodes) if not name.startswith("_")}
