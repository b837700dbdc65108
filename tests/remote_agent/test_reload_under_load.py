"""Policies, people and descriptors are replaced together, many times, while eight callers ask without a pause.

Every world has a number that is in all of its files: in the version and the id of the policy, in the
descriptor's revision, and in what the person is entitled to: which rows, and which of two capabilities.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.scope import Scope, Sensitivity
from contract.settings import Settings
from tests.large_world import DATASET, statement_of, write_world
from tests.remote_agent.long_world import QuickAsker
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, result_of, running_agent, task_of

pytestmark = pytest.mark.live

CALLERS: Final = 8
RELOADS: Final = 30
ALWAYS: Final = "list"
SOMETIMES: Final = ("first", "few")
"""The capability that is held in worlds of an even number, and the one of the others."""


def put(folder: Path, number: int) -> None:
    """Everything that is served, as it is in the world of this number; no file is ever there in half."""
    descriptor = folder / DATASET / "descriptor.json"
    replaced(descriptor, json.dumps(json.loads(descriptor.read_text()) | {"revision": f"r{number}"}))
    policy = (
        f'@id("T-{number}") @rows("{{\\"reading.site\\": {{\\"one_of\\": {{\\"principal\\": \\"sites\\"}}}}}}")\n'
        "permit (principal, action, resource) when { context.entitled };\n"
    )
    replaced(folder / "policies" / "t.cedar", policy)
    replaced(folder / "policies" / "version", f"w{number}\n")
    person = {
        "name": "engineer",
        "subject": "u-engineer",
        "tenant": "acme",
        "principal_class": "engineer",
        "clearance": "confidential",
        "entitlements": {DATASET: [ALWAYS, SOMETIMES[number % 2]]},
        "attributes": {"sites": [f"w{number}"]},
    }
    people = {"issuer": Settings(home=folder).issuer_url, "principals": [person]}
    replaced(folder / "principals.yaml", yaml.safe_dump(people))


def replaced(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    """Its data have one row for each world."""
    datasets = write_world(tmp_path / "datasets", rows=RELOADS + 1)
    data = datasets / DATASET / "data" / "reading.parquet"
    table = pq.read_table(data)
    sites = pa.array([f"w{number}" for number in range(RELOADS + 1)])
    pq.write_table(table.set_column(table.column_names.index("site"), "site", sites), data)
    put(datasets, 0)
    with running_agent(agent_home(tmp_path / "home", datasets=datasets, watch_interval=0)) as served:
        assert served.lifecycle.status()["datasets"] == [DATASET]
        yield served


class Caller(QuickAsker):
    """One connection, as long as the block lasts."""

    http: httpx.Client

    def __enter__(self) -> Self:
        self.http = httpx.Client(timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def rpc(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.http.post(self.url + "/", json=body, headers=headers)


@dataclass
class Load:
    """What the callers were answered. ``world`` is the newest whose reload has returned."""

    agent: RunningAgent
    world: int = 0
    sent: int = 0
    over: bool = False
    granted: Counter[int] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    news: threading.Condition = field(default_factory=threading.Condition)

    def call(self, caller: int) -> None:
        """Ask until it is over. Raises ``AssertionError`` at an answer of two worlds, and at none."""
        with Caller(self.agent.settings, self.agent.url, "engineer") as asker:
            for turn in count(caller):
                if self.over:
                    return
                self.ask(asker, (ALWAYS, *SOMETIMES)[turn % 3])

    def ask(self, asker: Asker, capability: str) -> None:
        with self.news:
            world, self.sent = self.world, self.sent + 1
        told = judged(asked(asker, capability, world), capability, world)
        with self.news:
            if told is None:
                self.granted[world] += 1
            else:
                self.others[told] += 1
            self.news.notify_all()

    def enter(self, number: int) -> None:
        """Replace the world, and go on when as many answers as there are callers were granted in it."""
        if number:
            put(self.agent.settings.datasets, number)
            self.agent.run(self.agent.lifecycle.reload())
            assert self.agent.lifecycle.fault is None
        with self.news:
            self.world = number
            assert self.news.wait_for(lambda: self.granted[number] >= CALLERS or self.over, 60)

    def end(self) -> None:
        with self.news:
            self.over = True
            self.news.notify_all()


def asked(asker: Asker, capability: str, world: int) -> dict[str, Any]:
    """The task of one call whose grant is for the revision of ``world``."""
    scope = Scope(
        dataset=DATASET,
        dataset_version="1",
        revision=f"r{world}",
        actions=frozenset({capability}),
        locations=frozenset({asker.settings.agent_id}),
        max_sensitivity=Sensitivity.CONFIDENTIAL,
    )
    call = asker.call(DATASET, capability, {"below": RELOADS + 1})
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    return task_of(asker.send(call, asker.headers(grant)))


def judged(task: dict[str, Any], capability: str, world: int) -> str | None:
    """``None`` for an answer that is of ``world`` and of no other, else the reason why there is none."""
    decision = decision_of(task)
    held = capability in (ALWAYS, SOMETIMES[world % 2])
    if decision["verdict"] == "GRANTED":
        told = statement_of(task)["predicate"]
        document = result_of(task)
        sites = [row[names(document).index("site")] for row in document["rows"]]
        versions = {decision["policy_version"], told["decision"]["policy_version"]}
        policies = {decision["policy_id"], told["decision"]["policy_id"]}
        assert (sites, versions, policies) == ([f"w{world}"], {f"w{world}"}, {f"T-{world}"})
        assert (told["dataset"]["revision"], held) == (f"r{world}", True)
        return None
    reason = str(decision["reason"])
    if reason == "INSUFFICIENT_PRIVILEGE":
        assert (decision["policy_version"], held) == (f"w{world}", False)
    else:  # the grant is for a revision that was replaced before the answer could leave
        assert reason == "UNKNOWN_DATASET_REVISION"
        assert int(decision["policy_version"].removeprefix("w")) > world
    return reason


def names(document: dict[str, Any]) -> list[str]:
    return [column["name"] for column in document["schema"]]


def test_no_answer_is_of_two_worlds_and_none_is_lost(agent: RunningAgent) -> None:
    load, before = Load(agent), len(agent.rows())
    with ThreadPoolExecutor(CALLERS) as pool:
        callers = [pool.submit(load.call, number) for number in range(CALLERS)]
        for caller in callers:
            caller.add_done_callback(lambda _: load.end())  # one that failed ends it
        try:
            for number in range(RELOADS + 1):
                load.enter(number)
        finally:
            load.end()
        for caller in callers:
            caller.result()
    assert sorted(load.granted) == list(range(RELOADS + 1))
    assert load.granted.total() + load.others.total() == load.sent == len(agent.rows()) - before
    assert load.others["INSUFFICIENT_PRIVILEGE"] > 0
    assert agent.lifecycle.service.world.generation == RELOADS + 1
