"""A revision and an age that are left to the source are on the card, in grants, in stored results and in what is signed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
import yaml

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.errors import DatasetAgentError
from contract.settings import SHIPPED_DATASETS, Settings
from control_plane.registry import load_registry
from remote_agent.sources import ask_source, sources_changed
from remote_agent.watching import watch_sources
from remote_agent.world import check_datasets
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, result_of, running_agent, task_of

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"


def publish(folder: Path, **changes: Any) -> None:
    """The shipped dataset with other members in its descriptor; ``None`` takes one away."""
    path = folder / DATASET / "descriptor.yaml"
    raw = yaml.safe_load(path.read_text()) | changes
    path.write_text(yaml.safe_dump({key: value for key, value in raw.items() if value is not None}, sort_keys=False))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets"))


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Iterator[tuple[RunningAgent, Asker]]:
    publish(folder, revision="auto", as_of=None)
    settings = agent_home(tmp_path / "home", datasets=folder, revision_commands=True)
    with running_agent(settings) as agent:
        yield agent, Asker(settings, agent.url)


def told(agent: RunningAgent) -> tuple[str, datetime]:
    descriptor = agent.lifecycle.service.world.datasets[DATASET].descriptor
    return descriptor.revision, descriptor.as_of


def ask(agent: RunningAgent, asker: Asker, revision: str) -> dict[str, Any]:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    scope = replace(asker.scope(DATASET, CAPABILITY), revision=revision)
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    return task_of(asker.send(call, asker.headers(grant)))


def touch_data(folder: Path) -> None:
    """Other bytes of equal rows."""
    path = folder / DATASET / "data" / "batch_record.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, compression="none")


def outcome(task: dict[str, Any]) -> str:
    return str(task["metadata"]["urn:dataset-agent:ext:execution-grant:v1/cache"]["outcome"])


def test_the_card_says_the_revision_of_the_files(own: tuple[RunningAgent, Asker]) -> None:
    agent, _ = own
    revision, as_of = told(agent)
    assert revision.startswith("sha256-")
    newest = max(path.stat().st_mtime for path in (agent.settings.datasets / DATASET / "data").iterdir())
    assert as_of == datetime.fromtimestamp(newest, UTC)
    assert revision in httpx.get(agent.url + "/.well-known/agent-card.json").text


def test_new_data_makes_grants_and_stored_results_of_the_old_serve_nothing(own: tuple[RunningAgent, Asker]) -> None:
    agent, asker = own
    before, aged = told(agent)
    assert [outcome(ask(agent, asker, before)) for _ in range(2)] == ["MISS", "HIT"]
    touch_data(agent.settings.datasets)
    agent.run(agent.lifecycle.reload())
    after, as_of = told(agent)
    assert after != before
    assert as_of > aged
    assert decision_of(ask(agent, asker, before))["reason"] == "UNKNOWN_DATASET_REVISION"
    fresh = ask(agent, asker, after)
    assert outcome(fresh) == "MISS"
    assert result_of(fresh)["as_of"] == as_of.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_a_command_is_run_only_where_the_operator_allows_it(folder: Path, tmp_path: Path) -> None:
    publish(folder, revision="auto", revision_command=[sys.executable, "-c", "print('lsn-7')"])
    manifest = load_registry(folder).datasets[DATASET]
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_REVISION_COMMANDS"):
        ask_source(manifest, folder / DATASET, Settings(datasets=folder), time.time())
    allowed = Settings(datasets=folder, revision_commands=True)
    assert ask_source(manifest, folder / DATASET, allowed, time.time()).revision == "lsn-7"


def test_a_command_that_knows_no_age_leaves_it_to_the_files(folder: Path) -> None:
    publish(folder, revision="auto", as_of="auto", revision_command=[sys.executable, "-c", "print('lsn-7')"])
    manifest = load_registry(folder).datasets[DATASET]
    for path in (folder / DATASET / "data").iterdir():
        os.utime(path, (1_000_000, 1_000_000))
    found = ask_source(manifest, folder / DATASET, Settings(datasets=folder, revision_commands=True), time.time())
    assert (found.revision, found.as_of) == ("lsn-7", datetime.fromtimestamp(1_000_000, UTC))


def test_what_a_descriptor_states_is_not_asked_for(folder: Path) -> None:
    manifest = load_registry(folder).datasets[DATASET]
    assert ask_source(manifest, Path("/nowhere"), Settings(datasets=folder), time.time()) is manifest


def test_a_descriptor_that_states_a_revision_names_no_command(folder: Path) -> None:
    publish(folder, revision_command=["true"])
    assert "keep one" in load_registry(folder).invalid[DATASET]


def test_nothing_is_published_before_the_source_was_asked(folder: Path) -> None:
    publish(folder, revision=None)
    with pytest.raises(ValueError, match="was not asked"):
        load_registry(folder).datasets[DATASET].published()


def test_a_command_that_fails_keeps_its_dataset_from_being_served(folder: Path, tmp_path: Path) -> None:
    publish(folder, revision="auto", revision_command=["false"])
    settings = Settings(home=tmp_path / "home", datasets=folder, revision_commands=True)
    found = asyncio.run(check_datasets(settings, scratch=tmp_path / "scratch"))
    assert "ended with 1" in str(found[DATASET])


def test_a_source_that_no_file_shows_is_asked_again(own: tuple[RunningAgent, Asker]) -> None:
    agent, _ = own
    says = agent.settings.home / "revision"
    says.write_text("r1 2024-02-29T00:00:00Z")
    publish(agent.settings.datasets, revision="auto", revision_command=["cat", str(says)])
    agent.run(agent.lifecycle.reload())
    assert told(agent) == ("r1", datetime(2024, 2, 29, tzinfo=UTC))
    assert agent.run(sources_changed(agent.settings, agent.lifecycle.service.world)) is False
    says.write_text("r2 2024-03-01T00:00:00Z")
    assert agent.run(sources_changed(agent.settings, agent.lifecycle.service.world)) is True
    says.unlink()
    assert agent.run(sources_changed(agent.settings, agent.lifecycle.service.world)) is False


async def test_a_source_that_changed_is_reloaded_and_a_round_that_fails_is_not_the_last() -> None:
    rounds = iter([False, RuntimeError("down"), True])
    reloads: list[int] = []
    done = asyncio.Event()

    async def changed() -> bool:
        held = next(rounds, None)
        if held is None:
            done.set()
            return False
        if isinstance(held, Exception):
            raise held
        return held

    async def reload() -> None:
        reloads.append(1)

    watching = asyncio.ensure_future(watch_sources(0.001, changed=changed, reload=reload))
    await asyncio.wait_for(done.wait(), 10)
    watching.cancel()
    assert reloads == [1]
