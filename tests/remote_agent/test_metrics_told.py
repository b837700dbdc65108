"""What a dataset agent tells of itself: how requests ended, and nothing of what they held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.verdict import VERDICTS
from tests.metrics.scraping import Scraped, scrape
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, result_of, running_agent, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"
TOKEN, ADMIN = "scraper-" + "s" * 32, "operator-" + "o" * 32
GRANTED = {"verdict": "GRANTED", "reason": "PRINCIPAL_AUTHORIZED"}
WORDS = "zebra crossing 9000"
STEPS = ("verify", "bind", "admit", "spend", "find", "recheck", "record", "seal")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("home"))) as served:
        yield served


def grown(after: Scraped, before: Scraped) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What went up, times and what the ledger holds aside."""
    return {
        key: value - before[key]
        for key, value in after.items()
        if value != before[key] and not key[0].endswith(("_bucket", "_sum", "store_seconds", "evidence_rows"))
    }


def test_a_request_is_counted_once_by_its_outcome_and_each_of_its_steps_is_timed(counted: RunningAgent) -> None:
    asker = Asker(counted.settings, counted.url)
    before = scrape(counted.url)
    for expected in ("MISS", "HIT"):
        asker.ask(DATASET, CAPABILITY, COMPARE)
        after = scrape(counted.url)
        up = grown(after, before)
        assert up["dataset_agent_requests_total", tuple(sorted(GRANTED.items()))] == 1
        assert up["dataset_agent_cache_outcomes_total", (("outcome", expected),)] == 1
        assert up["dataset_agent_request_seconds_count", ()] == 1
        timed = {key[1][0][1] for key in up if key[0] == "dataset_agent_step_seconds_count"}
        assert timed == {*STEPS, *(["run"] if expected == "MISS" else [])}
        assert after.of("dataset_agent_evidence_rows") == before.of("dataset_agent_evidence_rows") + 1
        before = after
    assert before.of("dataset_agent_requests_in_flight") == 0
    assert before.of("dataset_agent_engine_queries") == 0
    assert before.of("dataset_agent_single_flight_total", outcome="ran") >= 1
    assert before.of("dataset_agent_datasets", state="served") == 3
    assert [before.of("dataset_agent_store_up", store=store) for store in ("state", "cache", "ledger")] == [1, 1, 1]


def test_a_refusal_is_counted_by_its_reason_and_an_unknown_client_at_its_door(counted: RunningAgent) -> None:
    asker = Asker(counted.settings, counted.url)
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    header = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    asker.send(call, asker.headers(header))
    before = scrape(counted.url)
    replayed = decision_of(task_of(asker.send(call, asker.headers(header))))
    assert asker.send(call, asker.headers(header, authenticated=False)).status_code == 401
    up = grown(scrape(counted.url), before)
    told = tuple(sorted({"verdict": replayed["verdict"], "reason": replayed["reason"]}.items()))
    assert replayed["reason"] == "GRANT_REPLAYED"
    assert up["dataset_agent_requests_total", told] == 1
    assert up["dataset_agent_unauthenticated_total", (("door", "clients"),)] == 1
    assert not any(key[0].startswith("dataset_agent_cache_outcomes") for key in up)


def test_every_reason_has_its_counter_from_the_start(counted: RunningAgent) -> None:
    told = scrape(counted.url)
    for reason, verdict in VERDICTS.items():
        assert told.has("dataset_agent_requests_total", verdict=verdict.value, reason=reason.value)


def test_of_a_restricted_capability_nothing_tells_a_stored_result_from_one_that_was_made(counted: RunningAgent) -> None:
    reviewer = Asker(counted.settings, counted.url, principal="clinical_reviewer")
    ups = []
    before = scrape(counted.url)
    for _ in range(2):
        assert decision_of(reviewer.ask("clinical-private", "aggregate", {"metric": "crp"}))["verdict"] == "GRANTED"
        after = scrape(counted.url)
        ups.append(grown(after, before))
        before = after
    made, stored = ups
    assert counted.lifecycle.service.cache.counters["hit"] >= 1, "the second one was stored"
    assert made == stored
    assert made["dataset_agent_cache_outcomes_total", (("outcome", "WITHHELD"),)] == 1
    assert {key[1] for key in made if key[0] == "dataset_agent_step_seconds_count"}.isdisjoint(
        {(("step", "find"),), (("step", "run"),)}
    )


def test_no_argument_row_token_name_or_text_of_a_policy_is_told(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home", metrics_token=TOKEN, admin_token=ADMIN)
    with running_agent(settings) as agent:
        secrets = various(agent)
        told = scrape(agent.url, TOKEN)
    assert told.of("dataset_agent_requests_total", **GRANTED) >= 5
    assert sum(value for key, value in told.items() if key[0] == "dataset_agent_requests_total") >= 8
    assert told.of("dataset_agent_unauthenticated_total", door="metrics") == 1
    assert told.of("dataset_agent_unauthenticated_total", door="admin") == 1
    assert [secret for secret in secrets if secret in told.text] == []


def various(agent: RunningAgent) -> set[str]:
    """Requests of all kinds; what is in them and in their answers, and in none of the metrics."""
    engineer, reviewer = (
        Asker(agent.settings, agent.url, principal=name) for name in ("process_engineer", "clinical_reviewer")
    )
    found: list[dict[str, Any]] = [engineer.ask(DATASET, CAPABILITY, COMPARE) for _ in range(2)]
    found.append(engineer.ask(DATASET, "calculate_yield", {"batch_id": "B077"}))
    found.append(engineer.ask(DATASET, "search", {"query": WORDS}))
    found.append(reviewer.ask("clinical-private", "aggregate", {"metric": "crp"}))
    engineer.ask(DATASET, CAPABILITY, {"batch_a": "B' OR 1=1", "batch_b": "B002"})
    engineer.ask(DATASET, CAPABILITY, {"batch_a": "B001"})
    call = engineer.call(DATASET, CAPABILITY, COMPARE)
    header = engineer.grant(
        engineer.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)), now=1_000_000_000.0
    )
    engineer.send(call, engineer.headers(header))
    engineer.send(b"no json " + WORDS.encode(), engineer.headers(header))
    engineer.send(call, {**engineer.headers(header), "Authorization": f"Bearer {WORDS}"})
    for path, wrong in (("/metrics", "wrong-" + "w" * 32), ("/admin/cache/stats", "false-" + "f" * 32)):
        assert httpx.get(agent.url + path, headers={"Authorization": f"Bearer {wrong}"}).status_code == 401
    granted = [task for task in found if decision_of(task)["verdict"] == "GRANTED"]
    cells = {str(cell) for task in granted for row in result_of(task)["rows"] for cell in row if len(str(cell)) >= 5}
    world = agent.lifecycle.service.world
    names = {name for served in world.datasets.values() for name in (served.descriptor.dataset, *served.capabilities)}
    decided = {str(value) for task in found for value in decision_of(task).values() if len(str(value)) >= 5}
    public = {verdict.value for verdict in VERDICTS.values()} | {reason.value for reason in VERDICTS}
    return (
        cells
        | names
        | (decided - public)
        | {*header.split(","), TOKEN, ADMIN, WORDS, "B001", "B077", "B' OR", "crp", "wrong-", "false-", "u-eng", "acme"}
        | {served.descriptor.policies[0] for served in world.datasets.values()}
        | {agent.settings.root_id, agent.settings.agent_id, str(agent.settings.home), world.policy_version}
    )


def test_a_grant_is_counted_as_verified_or_by_why_it_does_not_hold(counted: RunningAgent) -> None:
    asker = Asker(counted.settings, counted.url)
    before = scrape(counted.url)
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), operation)
    for _ in range(2):
        asker.send(call, asker.headers(grant))
    asker.send(call, asker.headers())
    after = scrape(counted.url)
    for outcome in ("verified", "GRANT_REPLAYED", "NO_ACTIVE_GRANT"):
        named = {"outcome": outcome}
        name = "dataset_agent_grants_checked_total"
        assert after.of(name, **named) == before.of(name, **named) + 1


def test_rows_on_their_way_and_a_policy_server_that_is_none_are_told_as_such(counted: RunningAgent) -> None:
    told = scrape(counted.url)
    assert told.of("dataset_agent_evidence_rows_waiting") == 0
    assert not told.has("dataset_agent_store_up", store="policy_server")
