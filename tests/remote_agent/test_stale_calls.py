"""A result past its time is answered once more, said to be STALE, where publisher and policy allow it, and is refreshed behind.

Over real loopback HTTP on both stores of the cache, with a clock that the test moves.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from contract.extension import CACHE_KEY
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from control_plane.policy import PolicyAnswer, PolicyRequest
from evidence.provenance import verify_provenance
from evidence.row import Kind
from grants.state import RevocationKind
from remote_agent.admin_query import Asked
from tests.engine_taps import tap
from tests.remote_agent.clocked_world import CAPABILITY, DATASET, Clocked, cache_at, clocked
from tests.running_agent import RunningAgent, decision_of

pytestmark = pytest.mark.live

REUSE_S, STALE_S, ALLOWED_S = 60, 300, 120
PATIENCE_S = 600.0
"""How long what is held waits to be let go, however busy the machine is."""


@dataclass(frozen=True)
class Allowing:
    """The policies of another evaluator, whose permits say ``@stale`` or do not."""

    before: Any
    seconds: int
    name: str

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        answer: PolicyAnswer = await self.before.evaluate(request)
        return replace(answer, policy_version=self.name, obligations=replace(answer.obligations, stale_s=self.seconds))

    def version(self) -> str:
        return self.name


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    folder = tmp_path_factory.mktemp("stale")
    with serving(folder, request.param) as world:
        yield world


@contextmanager
def serving(folder: Path, kind: str) -> Iterator[Clocked]:
    with cache_at(kind, folder) as at, clocked(folder, None, **at) as world:
        yield patient(world)


def patient(world: Clocked) -> Clocked:
    """All agents and callers share one interpreter: what is tested is no budget, and not how soon a lease is lost."""
    for agent in world.agents:
        cache: Any = agent.lifecycle.service.cache
        cache._flights._life_s = PATIENCE_S
        if hasattr(cache.store, "_lanes"):
            cache.store._lanes._budget_s = PATIENCE_S
    return world


@pytest.fixture
def world(shared: Clocked) -> Iterator[Clocked]:
    """Whose publisher and policy allow that a result is answered past its time; nothing runs any more at the end."""
    before = [(agent.lifecycle.service.world, agent.lifecycle.service.trust) for agent in shared.agents]
    publish(shared, reuse_s=REUSE_S, stale_s=STALE_S)
    allow(shared, ALLOWED_S)
    shared.executions = 0
    yield shared
    settled(shared)
    for agent, first in zip(shared.agents, before, strict=True):
        agent.lifecycle.service.world, agent.lifecycle.service.trust = first


def publish(world: Clocked, *, revision: str | None = None, **members: Any) -> None:
    for agent in world.agents:
        service = agent.lifecycle.service
        served = service.world.datasets[DATASET]
        freshness = served.descriptor.freshness.model_copy(update=members)
        changes = {"freshness": freshness} | ({} if revision is None else {"revision": revision})
        changed = replace(served, descriptor=served.descriptor.model_copy(update=changes))
        if revision is not None:
            engine: Any = changed.engine
            engine._revision = revision
        service.world = replace(service.world, datasets={**service.world.datasets, DATASET: changed})


def dated(world: Clocked) -> None:
    """The publisher says that the data are as of now."""
    for agent in world.agents:
        service = agent.lifecycle.service
        served = service.world.datasets[DATASET]
        changed = replace(
            served, descriptor=served.descriptor.model_copy(update={"as_of": datetime.fromtimestamp(world.now(), UTC)})
        )
        service.world = replace(service.world, datasets={**service.world.datasets, DATASET: changed})


def allow(world: Clocked, seconds: int, name: str = "allowing") -> None:
    for agent in world.agents:
        service = agent.lifecycle.service
        inner = service.world.evaluator
        inner = inner.before if isinstance(inner, Allowing) else inner
        service.world = replace(service.world, evaluator=Allowing(inner, seconds, name), policy_version=name)


def told(world: Clocked, arguments: dict[str, str], agent: RunningAgent | None = None) -> dict[str, Any]:
    task = world.ask(world.root_token(), arguments, agent)
    assert CACHE_KEY in task["metadata"], decision_of(task)
    return dict(task["metadata"][CACHE_KEY])


def outcome(world: Clocked, arguments: dict[str, str]) -> str:
    return str(told(world, arguments)["outcome"])


def settled(world: Clocked) -> None:
    """Wait until no refresh is under way."""

    async def idle(agent: RunningAgent) -> None:
        while running := list(agent.lifecycle.service.refreshes._running.values()):
            await asyncio.wait(running)

    for agent in world.agents:
        agent.run(idle(agent))


def refreshes(world: Clocked) -> list[dict[str, Any]]:
    """The rows of refreshes, whoever wrote them."""
    return [row.cells for row in world.agents[0].rows() if row.cells["kind"] == Kind.CACHE_REFRESHED.value]


def part(task: dict[str, Any], name: str) -> bytes:
    return base64.b64decode(next(item for item in task["artifacts"] if item["name"] == name)["parts"][0]["raw"])


def test_past_its_time_it_is_answered_once_more_and_refreshed(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    first = told(world, arguments)
    world.move(REUSE_S - 1)
    assert told(world, arguments)["outcome"] == "HIT"
    world.move(2)
    stale = told(world, arguments)
    assert (stale["outcome"], stale["execution_id"], stale["key"]) == ("STALE", first["execution_id"], first["key"])
    assert stale["age_s"] >= REUSE_S
    settled(world)
    (row,) = refreshes(world)[before:]
    fresh = told(world, arguments)
    assert (fresh["outcome"], fresh["execution_id"]) == ("HIT", row["execution_id"])
    assert (world.executions, "age_s" in fresh) == (2, False)


def test_an_answer_past_its_time_is_one_use_of_what_is_stored(world: Clocked) -> None:
    arguments = world.fresh()
    key = told(world, arguments)["key"]
    world.move(REUSE_S + 1)
    assert outcome(world, arguments) == "STALE"
    settled(world)
    agent = world.agents[0]
    shown = agent.run(agent.lifecycle.desk().show(key))
    assert shown["hits"] == (None if agent.settings.cache_url else 1)


def test_the_reply_the_proof_and_both_rows_say_what_it_was(world: Clocked) -> None:
    arguments = world.fresh()
    first = told(world, arguments)
    world.move(REUSE_S + 5)
    before = len(world.agents[0].rows())
    task = world.ask(world.root_token(), arguments)
    settled(world)
    service = world.agents[0].lifecycle.service
    statement = verify_provenance(
        json.loads(part(task, "provenance")),
        service.signer.public_key,
        body=part(task, "result"),
        dataset=DATASET,
        capability=CAPABILITY,
    )
    cache = statement.predicate.cache
    assert (cache.outcome, cache.used, cache.derived) == ("STALE", True, False)
    assert statement.predicate.execution.execution_id == first["execution_id"]
    answered, refreshed = [row.cells for row in world.agents[0].rows()[before:]]
    assert (answered["kind"], answered["cache"]) == (Kind.TERMINAL.value, "STALE")
    assert (refreshed["kind"], refreshed["cache"]) == (Kind.CACHE_REFRESHED.value, "MISS")
    assert refreshed["caused_by"] == answered["decision_id"] != refreshed["decision_id"]
    assert refreshed["execution_id"] != answered["execution_id"]
    same = (
        "request_id",
        "leaf_jti",
        "subject_commitment",
        "dataset",
        "revision",
        "capability",
        "policy_id",
        "trace_id",
    )
    assert {name: refreshed[name] for name in same if name != "subject_commitment"} == {
        name: answered[name] for name in same if name != "subject_commitment"
    }


def test_behind_any_other_answer_nothing_runs(world: Clocked) -> None:
    arguments, before, service = world.fresh(), len(refreshes(world)), world.agents[0].lifecycle.service
    service.cache_enabled = False
    try:
        assert outcome(world, arguments) == "OFF"
    finally:
        service.cache_enabled = True
    settled(world)
    assert [outcome(world, arguments), outcome(world, arguments)] == ["MISS", "HIT"]
    settled(world)
    assert (len(refreshes(world)) - before, world.executions) == (0, 2)


def test_reading_it_lengthens_neither_time(world: Clocked) -> None:
    arguments = world.fresh()
    outcome(world, arguments)
    with failing(world):
        for _ in range(5):
            world.move(REUSE_S // 2)
            assert outcome(world, arguments) in ("HIT", "STALE")
            settled(world)
        world.move(REUSE_S + ALLOWED_S - 5 * (REUSE_S // 2))
        assert world.reason(world.root_token(), arguments) == Reason.EXECUTION_FAILED.value


def test_64_at_once_over_two_processes_are_one_refresh(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    root, askers = world.root_token(), [world.asker(agent) for agent in world.agents]
    call = askers[0].call(DATASET, CAPABILITY, arguments)
    leaves = [(askers[number % 2], askers[0].leaf(root, call)) for number in range(64)]
    with held(world) as go, ThreadPoolExecutor(16) as pool:
        tasks = list(pool.map(lambda one: world.send(one[0], call, one[1]), leaves))
        go.set()
    assert {task["metadata"][CACHE_KEY]["outcome"] for task in tasks} == {"STALE"}
    settled(world)
    assert (len(refreshes(world)) - before, world.executions) == (1, 2)


@contextmanager
def put_off(agent: RunningAgent) -> Iterator[list[Callable[[], None]]]:
    """What an agent would begin behind its answers inside is begun when the test says so."""
    refreshes: Any = agent.lifecycle.service.refreshes
    begin, put = refreshes.begin, list[Callable[[], None]]()

    def later(key: str, person: tuple[str, ...], work: Any) -> bool:
        async def now() -> None:
            assert begin(key, person, work)

        put.append(lambda: agent.run(now()))
        return True

    refreshes.begin = later
    try:
        yield put
    finally:
        refreshes.begin = begin


def test_who_was_too_late_for_the_refresh_of_another_process_runs_nothing(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    with put_off(world.agents[1]) as put:
        assert told(world, arguments, world.agents[1])["outcome"] == "STALE"
    assert told(world, arguments)["outcome"] == "STALE"
    settled(world)
    (begin,) = put
    begin()
    settled(world)
    assert (len(refreshes(world)) - before, world.executions) == (1, 2)


def revoked(world: Clocked) -> Reason:
    world.revoke(RevocationKind.SUBJECT, "u-eng-01")
    return Reason.GRANT_REVOKED


def replaced(world: Clocked) -> Reason:
    allow(world, ALLOWED_S, "newer")
    return Reason.UNKNOWN_DATASET_REVISION


def withdrawn(world: Clocked) -> Reason:
    for agent in world.agents:
        service = agent.lifecycle.service
        service.world = replace(service.world, datasets={})
    return Reason.MISSING_DESCRIPTOR


def distrusted(world: Clocked) -> Reason:
    for agent in world.agents:
        service = agent.lifecycle.service
        own = {service.agent_id: service.trust.agents[service.agent_id]}
        service.trust = replace(service.trust, agents=own)
    return Reason.GRANT_KEY_UNTRUSTED


@pytest.mark.parametrize("change", [revoked, replaced, withdrawn, distrusted])
def test_what_is_not_allowed_any_more_when_a_refresh_begins_runs_nothing(
    world: Clocked, change: Callable[[Clocked], Reason]
) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    with put_off(world.agents[0]) as put:
        assert outcome(world, arguments) == "STALE"
    reason = change(world)
    try:
        (begin,) = put
        begin()
        settled(world)
        (row,) = refreshes(world)[before:]
        assert (row["reason"], row["execution_id"], world.executions) == (reason.value, None, 1)
    finally:
        world.move(10)  # grants that are issued from now on are younger than a revocation


@pytest.mark.parametrize(("stale_s", "allowed_s"), [(STALE_S, 0), (None, ALLOWED_S), (10, ALLOWED_S), (STALE_S, 10)])
def test_the_shorter_of_what_the_publisher_says_and_the_policy_allows(
    world: Clocked, stale_s: int | None, allowed_s: int
) -> None:
    publish(world, stale_s=stale_s)
    allow(world, allowed_s, f"allows-{allowed_s}-of-{stale_s}")
    arguments = world.fresh()
    outcome(world, arguments)
    world.move(REUSE_S + 11)
    assert outcome(world, arguments) == "MISS"
    assert world.executions == 2


def test_what_was_stored_for_longer_ends_when_the_publisher_shortens_the_time(world: Clocked) -> None:
    arguments = world.fresh()
    outcome(world, arguments)
    publish(world, stale_s=10)
    world.move(REUSE_S + 11)
    assert outcome(world, arguments) == "MISS"


def test_past_the_stale_time_the_call_runs(world: Clocked) -> None:
    arguments = world.fresh()
    outcome(world, arguments)
    world.move(REUSE_S + ALLOWED_S + 1)
    assert [outcome(world, arguments), outcome(world, arguments)] == ["MISS", "HIT"]


def test_what_is_too_old_for_the_capability_is_never_answered(world: Clocked) -> None:
    for agent in world.agents:
        service = agent.lifecycle.service
        served = service.world.datasets[DATASET]
        capability = served.capabilities[CAPABILITY]
        strict = capability.descriptor.model_copy(update={"freshness_requirement_s": REUSE_S})
        capabilities = {**served.capabilities, CAPABILITY: replace(capability, descriptor=strict)}
        changed = replace(served, capabilities=capabilities)
        service.world = replace(service.world, datasets={**service.world.datasets, DATASET: changed})
    arguments = world.fresh()
    dated(world)
    assert [outcome(world, arguments), outcome(world, arguments)] == ["MISS", "HIT"]
    world.move(REUSE_S + 1)
    task = world.ask(world.root_token(), arguments)
    assert decision_of(task)["reason"] == Reason.FRESHNESS_UNSATISFIABLE
    assert CACHE_KEY not in task["metadata"]
    dated(world)
    assert outcome(world, arguments) == "MISS"


def test_another_policy_version_finds_nothing_that_is_past_its_time(world: Clocked) -> None:
    arguments = world.fresh()
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    allow(world, ALLOWED_S, "another")
    assert outcome(world, arguments) == "MISS"


def test_another_revision_finds_nothing_that_is_past_its_time(world: Clocked) -> None:
    arguments, engine = world.fresh(), world.agents[0].lifecycle.service.world.datasets[DATASET].engine
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    first: Any = engine
    kept = first._revision
    publish(world, revision="newer")
    try:
        asker = world.asker()
        call = asker.call(DATASET, CAPABILITY, arguments)
        root = world.root_token(asker.scope(DATASET, CAPABILITY, revision="newer"))
        task = world.send(asker, call, asker.leaf(root, call))
        assert task["metadata"][CACHE_KEY]["outcome"] == "MISS"
    finally:
        publish(world, revision=kept)


def test_whose_grant_is_revoked_gets_no_row_and_refreshes_nothing(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    root = world.root_token()
    world.revoke(RevocationKind.SUBJECT, "u-eng-01")
    try:
        assert world.reason(root, arguments) == Reason.GRANT_REVOKED.value
        settled(world)
        assert (len(refreshes(world)) - before, world.executions) == (0, 1)
    finally:
        world.move(10)  # grants that are issued from now on are younger than the revocation


def test_who_asks_why_is_told_which_it_is(world: Clocked) -> None:
    arguments, agent = world.fresh(), world.agents[0]
    asked = Asked("process_engineer", DATASET, CAPABILITY, arguments)
    scope = world.asker().scope(DATASET, CAPABILITY, max_sensitivity=Sensitivity.INTERNAL)  # as a root agent asks
    assert "artifacts" in world.ask(world.root_token(scope), arguments)
    seen = []
    for seconds in (0, REUSE_S + 1, ALLOWED_S):
        world.move(seconds)
        explained = agent.run(agent.lifecycle.desk().explain(asked))
        seen.append((explained["outcome"], explained["reason"]))
    assert seen == [("HIT", "hit"), ("STALE", "stale"), ("MISS", "expired")]
    settled(world)
    assert world.executions == 1


@contextmanager
def held(world: Clocked) -> Iterator[threading.Event]:
    """Engines that wait to be let go."""
    go = threading.Event()

    async def slow(_: Any) -> None:
        await asyncio.to_thread(go.wait, PATIENCE_S)

    undo = [tap(agent.lifecycle.service.world.datasets[DATASET].engine, before=slow) for agent in world.agents]
    try:
        yield go
    finally:
        go.set()
        settled(world)
        for one in undo:
            one()


@contextmanager
def failing(world: Clocked) -> Iterator[None]:
    """Engines that fail."""

    async def fail(_: Any) -> None:
        raise NotGranted(Reason.EXECUTION_FAILED, "the engine failed")

    undo = [tap(agent.lifecycle.service.world.datasets[DATASET].engine, before=fail) for agent in world.agents]
    try:
        yield
    finally:
        for one in undo:
            one()


def test_a_refresh_that_fails_is_recorded_and_the_call_after_the_stale_time_is_told(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    with failing(world):
        assert outcome(world, arguments) == "STALE"
        settled(world)
        (row,) = refreshes(world)[before:]
        assert (row["reason"], row["rows_returned"]) == (Reason.EXECUTION_FAILED.value, None)
        assert outcome(world, arguments) == "STALE"
        world.move(ALLOWED_S)
        assert world.reason(world.root_token(), arguments) == Reason.EXECUTION_FAILED.value
    assert outcome(world, arguments) == "MISS"


def test_a_grant_that_is_revoked_while_the_refresh_runs_keeps_nothing(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    first = told(world, arguments)
    world.move(REUSE_S + 1)
    with held(world) as go:
        assert outcome(world, arguments) == "STALE"
        world.revoke(RevocationKind.SUBJECT, "u-eng-01")
        go.set()
        settled(world)
    (row,) = refreshes(world)[before:]
    assert row["reason"] == Reason.GRANT_REVOKED.value
    world.move(10)
    stale = told(world, arguments)
    assert (stale["outcome"], stale["execution_id"]) == ("STALE", first["execution_id"])


def test_a_policy_that_is_replaced_while_the_refresh_runs_keeps_nothing(world: Clocked) -> None:
    arguments, before = world.fresh(), len(refreshes(world))
    outcome(world, arguments)
    world.move(REUSE_S + 1)
    with held(world) as go:
        assert outcome(world, arguments) == "STALE"
        allow(world, ALLOWED_S, "replaced")
        go.set()
        settled(world)
    (row,) = refreshes(world)[before:]
    assert row["reason"] == Reason.UNKNOWN_DATASET_REVISION.value
    assert outcome(world, arguments) == "MISS"


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_shutdown_ends_a_refresh_and_it_is_recorded(kind: str, tmp_path: Path) -> None:
    with serving(tmp_path, kind) as world:
        publish(world, reuse_s=REUSE_S, stale_s=STALE_S)
        allow(world, ALLOWED_S)
        arguments = world.fresh()
        outcome(world, arguments)
        world.move(REUSE_S + 1)
        service = world.agents[0].lifecycle.service
        running, go = threading.Event(), threading.Event()

        async def slow(_: Any) -> None:
            running.set()
            await asyncio.to_thread(go.wait, PATIENCE_S)

        tap(service.world.datasets[DATASET].engine, before=slow)
        assert outcome(world, arguments) == "STALE"
        assert running.wait(PATIENCE_S)
        world.agents[0].run(service.refreshes.close())
        (row,) = refreshes(world)
        assert row["reason"] == Reason.CANCELLED.value
        assert outcome(world, arguments) == "STALE"  # and begins nothing any more
        assert not service.refreshes._running
        go.set()
