"""What changes on disk is taken over on reload; what is broken is named; who goes away stops their query."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import SHIPPED_DATASETS, Settings
from contract.verdict import NotGranted, Reason
from grants.state import names_of
from remote_agent.world import check_datasets, close_world
from tests.engine_taps import tap
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, message, running_agent, task_of

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[RunningAgent, Asker]]:
    """An agent over a copy of the datasets that the test may change."""
    shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets")
    settings = agent_home(tmp_path / "home", datasets=tmp_path / "datasets")
    with running_agent(settings) as agent:
        yield agent, Asker(settings, agent.url)


def edit(path: Path, change: Any) -> None:
    raw = yaml.safe_load(path.read_text())
    change(raw)
    path.write_text(yaml.safe_dump(raw, sort_keys=False))


def reload(agent: RunningAgent) -> None:
    agent.run(agent.lifecycle.reload())


def test_an_entitlement_taken_away_here_refuses_after_a_reload(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"

    def take_away(raw: dict[str, Any]) -> None:
        person = next(entry for entry in raw["principals"] if entry["name"] == "process_engineer")
        person["entitlements"][DATASET].remove(CAPABILITY)

    edit(agent.settings.datasets / "principals.yaml", take_away)
    reload(agent)
    decision = decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))
    assert decision["reason"] == "INSUFFICIENT_PRIVILEGE"


def test_a_new_revision_makes_old_grants_stale_and_the_cache_miss_once(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    old = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    edit(agent.settings.datasets / DATASET / "descriptor.yaml", lambda raw: raw.update(revision="s3-etag-new"))
    reload(agent)
    assert decision_of(task_of(asker.send(call, asker.headers(old))))["reason"] == "UNKNOWN_DATASET_REVISION"
    outcomes = [
        asker.ask(DATASET, CAPABILITY, COMPARE)["metadata"]["urn:dataset-agent:ext:execution-grant:v1/cache"]["outcome"]
        for _ in range(2)
    ]
    assert outcomes == ["MISS", "HIT"]


CHROMATOGRAPHY = "chromatography-results"


def test_a_broken_edit_is_counted_and_the_old_version_goes_on(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    scope = asker.scope(CHROMATOGRAPHY, "search")
    (agent.settings.datasets / CHROMATOGRAPHY / "descriptor.yaml").write_text("dataset: [")
    reload(agent)
    assert list(agent.lifecycle.status()["outdated"]) == [CHROMATOGRAPHY]
    public = httpx.get(agent.url + "/readyz")
    assert (public.json()["outdated"], public.json()["invalid"], public.json()["datasets"]) == (1, 0, 3)
    assert "chromatography" not in public.text
    assert "clinical" not in public.text
    call = asker.call(CHROMATOGRAPHY, "search", {"query": "a"})
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["verdict"] == "GRANTED"
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"


def test_an_edit_that_is_put_right_is_taken_over(own: tuple[RunningAgent, Asker]) -> None:
    agent, _ = own
    path = agent.settings.datasets / CHROMATOGRAPHY / "descriptor.yaml"
    text = path.read_text()
    path.write_text("dataset: [")
    reload(agent)
    path.write_text(text.replace("revision: ", "revision: new-"))
    reload(agent)
    assert agent.lifecycle.status()["outdated"] == {}
    assert agent.lifecycle.service.world.datasets[CHROMATOGRAPHY].descriptor.revision.startswith("new-")


def test_an_engine_that_goes_on_outlives_the_world_it_was_opened_for(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    scope = asker.scope(CHROMATOGRAPHY, "search")
    (agent.settings.datasets / CHROMATOGRAPHY / "descriptor.yaml").write_text("dataset: [")
    first = agent.lifecycle.service.world
    for _ in range(2):
        reload(agent)
    agent.run(close_world(first, beside=[agent.lifecycle.service.world]))
    call = asker.call(CHROMATOGRAPHY, "search", {"query": "b"})
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["verdict"] == "GRANTED"
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"


@pytest.mark.parametrize("renamed", [False, True])
def test_a_dataset_that_is_no_longer_there_is_withdrawn(own: tuple[RunningAgent, Asker], renamed: bool) -> None:
    agent, _ = own
    folder = agent.settings.datasets / CHROMATOGRAPHY
    if renamed:
        edit(folder / "descriptor.yaml", lambda raw: raw.update(dataset="columns"))
    else:
        shutil.rmtree(folder)
    reload(agent)
    status = agent.lifecycle.status()
    assert (status["invalid"], status["outdated"]) == ({}, {})
    assert CHROMATOGRAPHY not in status["datasets"]


def test_a_dataset_in_a_folder_of_another_name_goes_on_too(own: tuple[RunningAgent, Asker]) -> None:
    agent, _ = own
    moved = (agent.settings.datasets / CHROMATOGRAPHY).rename(agent.settings.datasets / "moved")
    reload(agent)
    (moved / "descriptor.yaml").write_text("dataset: [")
    reload(agent)
    status = agent.lifecycle.status()
    assert (list(status["outdated"]), status["invalid"]) == ([CHROMATOGRAPHY], {})


def test_a_dataset_that_was_never_served_is_invalid(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    folder = agent.settings.datasets / "tanks"
    folder.mkdir()
    (folder / "descriptor.yaml").write_text("dataset: tanks\nversion: [")
    reload(agent)
    assert list(agent.lifecycle.status()["invalid"]) == ["tanks"]
    assert httpx.get(agent.url + "/readyz").json()["invalid"] == 1
    scope = replace(asker.scope(DATASET, CAPABILITY), dataset="tanks")
    call = asker.call("tanks", CAPABILITY, {})
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["reason"] == "DESCRIPTOR_INVALID"


def test_a_dataset_may_lie_in_a_folder_of_another_name(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    (agent.settings.datasets / DATASET).rename(agent.settings.datasets / "moved")
    reload(agent)
    assert agent.lifecycle.status()["invalid"] == {}
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"


@pytest.mark.parametrize("file", ["data", "templates"])
def test_a_file_that_is_a_folder_is_a_fault_of_its_dataset_alone(own: tuple[RunningAgent, Asker], file: str) -> None:
    agent, asker = own
    path = next((agent.settings.datasets / "chromatography-results" / file).iterdir())
    path.unlink()
    path.mkdir()
    reload(agent)
    assert list(agent.lifecycle.status()["outdated"]) == [CHROMATOGRAPHY]
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"


def test_what_is_wrong_with_a_dataset_is_found_without_a_service_and_nothing_is_left_open(tmp_path: Path) -> None:
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets"))
    template = datasets / DATASET / "templates" / f"{CAPABILITY}.sql"
    template.write_text("SELECT 1")
    settings = Settings(home=tmp_path / "home", datasets=datasets)
    found = asyncio.run(check_datasets(settings, scratch=tmp_path / "scratch"))
    assert {name: why is None for name, why in found.items()} == {
        "chromatography-results": True,
        "clinical-private": True,
        DATASET: False,
    }
    assert f"{template.name}:1: " in str(found[DATASET])
    assert not settings.home.exists()


def test_broken_policies_keep_the_old_version_in_force_and_say_so(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    policy = next((agent.settings.datasets / "policies").glob("*.cedar"))
    policy.write_text("permit (")
    reload(agent)
    report = httpx.get(agent.url + "/readyz").json()
    assert (report["generation"], report["reload"]) == (1, "refused")
    assert policy.name in agent.lifecycle.status()["fault"]
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["verdict"] == "GRANTED"


def test_a_grant_revoked_while_the_query_runs_releases_no_row(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    service = agent.lifecycle.service
    engine = service.world.datasets[DATASET].engine
    tap(engine, after=lambda authority: revoke_subject(service, authority))
    task = asker.ask(DATASET, CAPABILITY, {"batch_a": "B031", "batch_b": "B032"})
    assert decision_of(task)["reason"] == "GRANT_REVOKED"
    assert "artifacts" not in task


async def revoke_subject(service: Any, authority: Any) -> None:
    kind, value = next(pair for pair in names_of(authority.grant, None) if pair[0].value == "subject")
    await service.state.revoke(kind, value, not_before=time.time() + 5)


def test_a_caller_who_disconnects_stops_the_query_and_leaves_one_row(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    service = agent.lifecycle.service
    engine = service.world.datasets[DATASET].engine
    cancelled: list[bool] = []

    async def wait(_: Any) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    tap(engine, before=wait)
    before = len(agent.rows())
    call = asker.call(DATASET, CAPABILITY, {"batch_a": "B033", "batch_b": "B034"})
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(agent.url + "/", json=body, headers=asker.headers(grant), timeout=0.5)
    deadline = time.monotonic() + 10
    while len(agent.rows()) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    rows = agent.rows()[before:]
    assert [row.cells["reason"] for row in rows] == ["CANCELLED"]
    assert cancelled == [True]


def test_without_evidence_there_are_no_rows(own: tuple[RunningAgent, Asker], monkeypatch: pytest.MonkeyPatch) -> None:
    agent, asker = own

    async def full(row: Any) -> Any:
        raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the disk is full")

    monkeypatch.setattr(agent.lifecycle.service.ledger, "append_async", full)
    task = asker.ask(DATASET, CAPABILITY, COMPARE)
    assert decision_of(task)["reason"] == "EVIDENCE_UNAVAILABLE"
    assert "artifacts" not in task


def test_an_unreachable_state_store_is_indeterminate_and_nothing_runs(
    own: tuple[RunningAgent, Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, asker = own

    async def down(*args: Any, **kwargs: Any) -> None:
        raise NotGranted(Reason.STATE_UNAVAILABLE, "the state store cannot be reached")

    monkeypatch.setattr(agent.lifecycle.service.state, "spend", down)
    assert decision_of(asker.ask(DATASET, CAPABILITY, COMPARE))["reason"] == "STATE_UNAVAILABLE"


def test_a_fault_in_the_path_is_one_row_and_no_text_of_the_fault(
    own: tuple[RunningAgent, Asker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent, asker = own

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("cell value zebra-9000")

    engine = agent.lifecycle.service.world.datasets[DATASET].engine
    monkeypatch.setattr(engine, "stream", broken)
    before = len(agent.rows())
    task = asker.ask(DATASET, CAPABILITY, {"batch_a": "B035", "batch_b": "B036"})
    assert decision_of(task)["reason"] == "EXECUTION_FAILED"
    assert "zebra" not in str(task["status"]) + caplog.text
    assert len(agent.rows()) == before + 1


def test_a_request_keeps_the_world_it_started_with(own: tuple[RunningAgent, Asker]) -> None:
    agent, _ = own
    before = agent.lifecycle.service.world
    reload(agent)
    after = agent.lifecycle.service.world
    assert after.generation == before.generation + 1
    assert replace(before, generation=0) != after


def test_an_agent_whose_stores_are_down_says_that_it_is_not_ready(
    own: tuple[RunningAgent, Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, _ = own

    async def down() -> None:
        raise DatasetAgentError(Component.GRANTS, Category.UNAVAILABLE, "grants.state.unavailable", "start the store")

    monkeypatch.setattr(agent.lifecycle.service.state, "health", down)
    response = httpx.get(agent.url + "/readyz")
    assert response.status_code == 503
    assert response.json()["status"] == "unready"
