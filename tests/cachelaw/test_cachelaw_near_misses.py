"""Calls that differ in one small thing, asked of a served agent one after the other: each gets its own rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from contract.settings import Settings
from control_plane.interpret import interpret
from control_plane.registry import load_registry
from queries.bind import bind
from tests.cachelaw.near_misses import Asked, pairs, questions
from tests.remote_agent.long_world import QuickAsker
from tests.running_agent import RunningAgent, agent_home, message, result_of, running_agent, task_of

pytestmark = pytest.mark.live
LEAST = 200


@dataclass
class People:
    """Everybody who asks one agent, over one connection."""

    agent: RunningAgent
    http: httpx.Client
    known: dict[str, QuickAsker] = field(default_factory=dict)

    def ask(self, asked: Asked) -> dict[str, Any]:
        if asked.person not in self.known:
            self.known[asked.person] = QuickAsker(self.agent.settings, self.agent.url, principal=asked.person)
        asker = self.known[asked.person]
        call = asker.call(asked.dataset, asked.capability, asked.given())
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        headers = asker.headers(asker.grant(asker.scope(asked.dataset, asked.capability), operation))
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
        return task_of(self.http.post("/", json=body, headers=headers))


@contextmanager
def people(folder: Path, **settings: Any) -> Iterator[People]:
    """Both agents have one secret, which a hashed column depends on."""
    home = agent_home(folder, cache_secret="5a" * 32, **settings)
    with running_agent(home) as served, httpx.Client(base_url=served.url, timeout=60) as http:
        yield People(served, http)


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with people(tmp_path_factory.mktemp("cached")) as asking:
        yield asking


@pytest.fixture(scope="module")
def uncached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with people(tmp_path_factory.mktemp("uncached"), cache_enabled=False) as asking:
        yield asking


def test_calls_that_differ_in_one_small_thing_never_get_one_another_s_rows(cached: People, uncached: People) -> None:
    found = pairs(load_registry(cached.agent.settings.datasets).datasets)
    assert len(found) >= LEAST
    distinct = list(dict.fromkeys(asked for pair in found for asked in pair))
    right = {asked: result_of(uncached.ask(asked)) for asked in distinct}
    hits = 0
    for asked in (asked for pair in found for asked in pair):
        task = cached.ask(asked)
        assert result_of(task) == right[asked], asked
        hits += task["metadata"][CACHE_KEY]["outcome"] == "HIT"
    # Pairs share calls, so a cache that keeps nothing would not do; and pairs differ, so one that mixes them neither.
    assert hits >= LEAST // 4
    assert sum(right[left] != right[other] for left, other in found) >= LEAST // 2


def test_a_question_that_differs_in_a_word_is_read_as_another_call(cached: People) -> None:
    world = cached.agent.lifecycle.service.world
    registry = load_registry(Settings().datasets)
    asked = list(questions())
    for person, *said in asked:
        held = world.directory.named(person)
        assert held is not None
        offered = [item for name, item in registry.datasets.items() if name in held.entitlements]
        read = []
        for question, call in said:
            proposal = interpret(question, offered, now=time.time())
            assert proposal is not None, question
            assert (proposal.dataset, proposal.capability) == (call["dataset"], call["capability"]), question
            template = world.datasets[call["dataset"]].capabilities[call["capability"]].template
            canonical = [bind(template, given).canonical for given in (proposal.arguments, call["arguments"])]
            assert canonical[0] == canonical[1], question
            read.append((call["dataset"], call["capability"], canonical[0]))
        assert read[0] != read[1]
    assert len(asked) >= 25
