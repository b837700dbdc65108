"""The metrics while stores suffer, of several workers, and with other settings."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from contract.settings import Settings
from dataset_agent.doctor_cache import check_cache
from tests.cache.valkey_world import Server, running
from tests.metrics.scraping import Scraped, scrape
from tests.remote_agent.two_workers import two_workers
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, running_agent

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"
GRANTED = {"verdict": "GRANTED", "reason": "PRINCIPAL_AUTHORIZED"}
TOKEN, ADMIN = "scraper-" + "s" * 32, "operator-" + "o" * 32
PATIENT_S = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", {"maxmemory": "64mb", "maxmemory-policy": "volatile-lfu"})
    with running(made):
        yield made


def ask(agent: RunningAgent) -> None:
    task = Asker(agent.settings, agent.url).ask(DATASET, CAPABILITY, COMPARE)
    assert decision_of(task)["verdict"] == "GRANTED"


def until(agent: RunningAgent, told: Callable[[Scraped], bool]) -> Scraped:
    """What is told once it is so, asking on; no sooner than stores are asked again."""
    deadline = time.monotonic() + PATIENT_S
    while not told(found := scrape(agent.url)):
        assert time.monotonic() < deadline, found.text
        time.sleep(0.5)
        ask(agent)
    return found


async def doctor(settings: Settings) -> str:
    return (await check_cache(settings, none_yet="none yet")).status


@pytest.mark.parametrize(
    ("hurt", "heal", "cause"),
    [
        (lambda server: server.stop(), lambda server: server.start(), "faults"),
        (lambda server: server.signal(signal.SIGSTOP), lambda server: server.signal(signal.SIGCONT), "silence"),
    ],
    ids=["stopped", "hung"],
)
async def test_a_cache_server_that_is_away_is_told_by_the_metrics_and_by_doctor_until_it_is_back(
    server: Server, tmp_path: Path, hurt: Callable[[Server], object], heal: Callable[[Server], object], cause: str
) -> None:
    with running_agent(agent_home(tmp_path / "home", cache_url=server.url)) as agent:
        ask(agent)
        well = scrape(agent.url)
        assert (well.of("dataset_agent_store_up", store="cache"), well.of("dataset_agent_cache_breaker_open")) == (1, 0)
        assert await doctor(agent.settings) == "ok"
        hurt(server)
        try:
            for _ in range(4):  # three faults in a row open it; one silence does
                ask(agent)
            away = until(agent, lambda told: told.of("dataset_agent_store_up", store="cache") == 0)
            assert await doctor(agent.settings) == "broken"
        finally:
            heal(server)
        assert away.of("dataset_agent_cache_breaker_open") == 1
        assert away.of("dataset_agent_cache_breaker_openings_total", cause=cause) >= 1
        assert away.of("dataset_agent_cache_events_total", event="unavailable") >= 1
        assert away.of("dataset_agent_store_up", store="state") == 1
        assert away.of("dataset_agent_store_seconds", store="cache") < 2.5
        back = until(
            agent,
            lambda told: (
                told.of("dataset_agent_store_up", store="cache") == 1
                and told.of("dataset_agent_cache_breaker_open") == 0
            ),
        )
        assert back.of("dataset_agent_requests_total", **GRANTED) > well.of("dataset_agent_requests_total", **GRANTED)
        assert await doctor(agent.settings) == "ok"


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGTERM], ids=["hung", "stopped"])
def test_a_state_store_that_is_away_is_told_within_seconds(tmp_path: Path, how: signal.Signals) -> None:
    durable = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    server = Server(tmp_path / "server", durable)
    with running(server), running_agent(agent_home(tmp_path / "home", state_url=server.url)) as agent:
        ask(agent)
        server.signal(how)
        try:
            Asker(agent.settings, agent.url).ask(DATASET, CAPABILITY, COMPARE)
            began = time.monotonic()
            away = scrape(agent.url)
            assert time.monotonic() - began < 5
        finally:
            if how is signal.SIGSTOP:
                server.signal(signal.SIGCONT)
    assert away.of("dataset_agent_store_up", store="state") == 0
    assert away.of("dataset_agent_requests_total", verdict="INDETERMINATE", reason="STATE_UNAVAILABLE") == 1


def test_the_metrics_of_two_workers_are_told_together_by_either(tmp_path: Path) -> None:
    with two_workers(agent_home(tmp_path / "home")) as pair:
        for agent, times in zip(pair, (1, 2), strict=True):
            for _ in range(times):
                Asker(agent.settings, agent.url).ask(DATASET, CAPABILITY, COMPARE)
        for agent in pair:
            told = scrape(agent.url)
            assert told.of("dataset_agent_requests_total", **GRANTED) == 3
            assert told.of("dataset_agent_cache_outcomes_total", outcome="HIT") == 2
            assert told.of("dataset_agent_step_seconds_count", step="record") == 3
            assert told.of("dataset_agent_processes") == 2
            assert told.of("dataset_agent_datasets", state="served") == 3
            assert told.of("dataset_agent_evidence_rows") == 3


def test_with_the_cache_off_its_store_is_not_told_and_calls_are_off(tmp_path: Path) -> None:
    with running_agent(agent_home(tmp_path / "home", cache_enabled=False)) as agent:
        Asker(agent.settings, agent.url).ask(DATASET, CAPABILITY, COMPARE)
        told = scrape(agent.url)
    assert not told.has("dataset_agent_store_up", store="cache")
    assert told.of("dataset_agent_cache_outcomes_total", outcome="OFF") == 1
    assert told.of("dataset_agent_single_flight_total", outcome="ran") == 0


def test_in_production_the_metrics_are_for_who_has_the_token(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home", public_url="https://data.example")
    with running_agent(settings) as agent:
        assert httpx.get(agent.url + "/metrics").status_code == 404
        assert json.loads(httpx.get(agent.url + "/metrics").text)["code"] == "remote_agent.metrics.path"


def test_a_token_file_is_read_again_at_a_reload(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text(TOKEN)
    file.chmod(0o600)
    with running_agent(agent_home(tmp_path / "home", metrics_token_file=file)) as agent:
        scrape(agent.url, TOKEN)
        file.write_text(ADMIN)
        agent.run(agent.lifecycle.reload())
        scrape(agent.url, ADMIN)
        assert httpx.get(agent.url + "/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401
