"""Whatever is revoked is refused by the next call at every agent, hit or miss, and while a call is under way."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import unb64url
from contract.ids import new_id
from contract.verdict import Decision, Reason
from grants.mint import mint_root
from grants.state import RevocationKind
from tests.engine_taps import tap
from tests.grants.state_worlds import start_valkey
from tests.remote_agent.clocked_world import ARGUMENTS, CAPABILITY, DATASET, Clocked, clocked
from tests.running_agent import RunningAgent, decision_of, task_of

pytestmark = pytest.mark.live

OTHER = "chromatography-results"


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    folder = tmp_path_factory.mktemp("revocation")
    if request.param == "sqlite":
        with clocked(folder, None) as world:
            yield world
        return
    server = start_valkey(folder / "valkey")
    try:
        with clocked(folder, server.connection_url) as world:
            yield world
    finally:
        server.stop()


@pytest.fixture
def world(shared: Clocked) -> Clocked:
    """Long after what an earlier test revoked, and with its rows counted."""
    shared.move(400)
    shared.new_rows()
    shared.executions = 0
    return shared


def claims_of(token: str) -> dict[str, Any]:
    return dict(json.loads(unb64url(token.split(".")[1])))


def several(world: Clocked) -> str:
    """A root token for two datasets, as a root agent mints for a call that another agent has to complete."""
    asker = world.asker()
    decision = Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "the root admits it")
    holder = asker.trust.agents[world.settings.root_id]
    return mint_root(
        asker.issuer,
        issuer_url=world.settings.issuer_url,
        decision=decision,
        principal=asker._principal(),
        holder=holder,
        scope=asker.scope(DATASET, CAPABILITY),
        further=[(asker.scope(OTHER, "search"), decision)],
        intent=CAPABILITY,
        rctx={"trace_id": new_id("t")[2:]},
        now=world.now(),
    )


Value = Callable[[Clocked, str, dict[str, Any]], str]
"""What names a grant: of the world, the root token and the decision that was made on it."""

NAMES: dict[str, tuple[RevocationKind, Value]] = {
    "subject": (RevocationKind.SUBJECT, lambda world, root, decision: str(claims_of(root)["sub"])),
    "root jti": (RevocationKind.GRANT, lambda world, root, decision: str(claims_of(root)["jti"])),
    "txn": (RevocationKind.TXN, lambda world, root, decision: str(claims_of(root)["txn"])),
    "policy": (
        RevocationKind.POLICY,
        lambda world, root, decision: f"{decision['policy_id']}@{decision['policy_version']}",
    ),
    "policy of the issuer": (RevocationKind.POLICY, lambda world, root, decision: "BPD-DATA-014@2026.09.01"),
    "dataset": (
        RevocationKind.DATASET,
        lambda world, root, decision: f"{DATASET}@{world.asker().scope(DATASET).dataset_version}",
    ),
    "another dataset of the grant": (
        RevocationKind.DATASET,
        lambda world, root, decision: f"{OTHER}@{world.asker().scope(OTHER).dataset_version}",
    ),
    "holder": (
        RevocationKind.HOLDER,
        lambda world, root, decision: str(world.asker().holder.public_key.thumbprint),
    ),
    "issuer key": (RevocationKind.KEY, lambda world, root, decision: str(world.asker().issuer.public_key.thumbprint)),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_next_call_is_refused_hit_or_miss_at_every_agent(world: Clocked, name: str) -> None:
    kind, value = NAMES[name]
    world.primed()
    root = several(world)
    before = decision_of(world.ask(root, ARGUMENTS))
    assert before["verdict"] == "GRANTED"
    world.revoke(kind, value(world, root, before))
    world.new_rows()
    world.executions = 0
    reasons = [
        world.reason(root, arguments, agent) for agent in world.agents for arguments in (ARGUMENTS, world.fresh())
    ]
    assert reasons == ["GRANT_REVOKED"] * 4
    assert world.new_rows() == {"GRANT_REVOKED": 4}
    assert world.executions == 0
    world.move(60)
    assert world.reason(several(world), ARGUMENTS) == "PRINCIPAL_AUTHORIZED"  # a grant that is younger


def test_one_leaf_is_revoked_by_its_jti_and_its_siblings_are_not(world: Clocked) -> None:
    root, asker = world.root_token(), world.asker()
    call = asker.call(DATASET, CAPABILITY, ARGUMENTS)
    leaves = [asker.leaf(root, call) for _ in range(2)]
    world.revoke(RevocationKind.GRANT, claims_of(leaves[0].split(",")[1])["jti"])
    tasks = [world.send(world.asker(agent), call, leaf) for leaf, agent in zip(leaves, world.agents, strict=True)]
    assert [decision_of(task)["reason"] for task in tasks] == ["GRANT_REVOKED", "PRINCIPAL_AUTHORIZED"]


def test_a_revoked_grant_neither_negotiates_nor_discovers(world: Clocked) -> None:
    root, asker = world.root_token(), world.asker()
    world.revoke(RevocationKind.TXN, claims_of(root)["txn"])
    headers = asker.headers(asker.leaf(root, b"", Operation("SendMessage", negotiate=True)))
    words = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare B001 and B002"}]}
    assert decision_of(task_of(asker.rpc("SendMessage", {"message": words}, headers)))["reason"] == "GRANT_REVOKED"
    headers = asker.headers(asker.leaf(root, b"", Operation("discover")))
    assert "GRANT_REVOKED" in asker.rpc("GetExtendedAgentCard", {}, headers).text
    assert world.new_rows() == {"GRANT_REVOKED": 2}


def test_a_revocation_between_admission_and_lookup_stops_the_hit(world: Clocked) -> None:
    agent = world.agents[0]
    world.primed()
    root = world.root_token()
    state = agent.lifecycle.service.state
    spend = state.spend

    async def spend_then_revoke(*args: Any, **kwargs: Any) -> None:
        await spend(*args, **kwargs)
        await asyncio.to_thread(world.revoke, RevocationKind.TXN, claims_of(root)["txn"])

    state.spend = spend_then_revoke  # type: ignore[method-assign]
    try:
        world.new_rows()
        world.executions = 0
        assert world.reason(root, ARGUMENTS, agent) == "GRANT_REVOKED"
    finally:
        state.spend = spend  # type: ignore[method-assign]
    assert (world.executions, world.new_rows()) == (0, {"GRANT_REVOKED": 1})


# while a query runs


@dataclass
class Held:
    """An agent whose engine waits to be let go, and how many calls came to one flight."""

    running: threading.Event
    go: threading.Event
    calls: list[str]

    def wait_for(self, calls: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.calls) < calls and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(self.calls) == calls


@pytest.fixture
def held(world: Clocked) -> Iterator[Held]:
    found = Held(threading.Event(), threading.Event(), [])
    undo: list[Callable[[], None]] = []
    for agent in world.agents:
        undo += [_slow(agent, found), _counted(agent, found)]
    yield found
    found.go.set()
    for back in undo:
        back()


def _slow(agent: RunningAgent, held: Held) -> Callable[[], None]:
    engine = agent.lifecycle.service.world.datasets[DATASET].engine

    async def slow(_: Any) -> None:
        held.running.set()
        await asyncio.to_thread(held.go.wait, 30)

    return tap(engine, before=slow)


def _counted(agent: RunningAgent, held: Held) -> Callable[[], None]:
    cache = agent.lifecycle.service.cache
    once = cache.once

    async def counted(*args: Any, **kwargs: Any) -> Any:
        held.calls.append(agent.url)
        return await once(*args, **kwargs)

    cache.once = counted  # type: ignore[method-assign]
    return lambda: setattr(cache, "once", once)


def test_a_grant_revoked_while_its_own_query_runs_gets_no_rows(world: Clocked, held: Held) -> None:
    root, arguments = world.root_token(), world.fresh()
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(world.reason, root, arguments)
        assert held.running.wait(30)
        world.revoke(RevocationKind.GRANT, claims_of(root)["jti"])
        held.go.set()
        assert asking.result(30) == "GRANT_REVOKED"
    assert world.new_rows() == {"GRANT_REVOKED": 1}


@pytest.mark.parametrize("place", [0, 1], ids=["in the same process", "in another process"])
def test_a_grant_revoked_while_it_waits_behind_anothers_query_gets_no_rows(
    world: Clocked, held: Held, place: int
) -> None:
    leader, waiter, arguments = world.root_token(), world.root_token(), world.fresh()
    with ThreadPoolExecutor() as pool:
        leading = pool.submit(world.reason, leader, arguments, world.agents[0])
        assert held.running.wait(30)
        waiting = pool.submit(world.reason, waiter, arguments, world.agents[place])
        held.wait_for(2)
        world.revoke(RevocationKind.GRANT, claims_of(waiter)["jti"])
        held.go.set()
        assert (leading.result(30), waiting.result(30)) == ("PRINCIPAL_AUTHORIZED", "GRANT_REVOKED")
    assert world.new_rows() == {"PRINCIPAL_AUTHORIZED": 1, "GRANT_REVOKED": 1}
    assert world.executions == 1


def test_a_revoked_leader_takes_nobody_with_it(world: Clocked, held: Held) -> None:
    leader, waiter, arguments = world.root_token(), world.root_token(), world.fresh()
    with ThreadPoolExecutor() as pool:
        leading = pool.submit(world.reason, leader, arguments)
        assert held.running.wait(30)
        waiting = pool.submit(world.reason, waiter, arguments)
        held.wait_for(2)
        world.revoke(RevocationKind.GRANT, claims_of(leader)["jti"])
        held.go.set()
        assert (leading.result(30), waiting.result(30)) == ("GRANT_REVOKED", "PRINCIPAL_AUTHORIZED")


def test_a_person_revoked_in_the_middle_gets_no_rows_from_any_of_their_calls(world: Clocked, held: Held) -> None:
    roots, arguments = [world.root_token() for _ in range(6)], world.fresh()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(world.reason, roots[0], arguments, world.agents[0])
        assert held.running.wait(30)
        others = [
            pool.submit(world.reason, root, arguments, world.agents[number % 2])
            for number, root in enumerate(roots[1:])
        ]
        held.wait_for(6)
        world.revoke(RevocationKind.SUBJECT, claims_of(roots[0])["sub"])
        held.go.set()
        assert {asking.result(30) for asking in (first, *others)} == {"GRANT_REVOKED"}
    assert world.new_rows() == {"GRANT_REVOKED": 6}
    world.move(60)
    assert world.reason(world.root_token(), arguments) == "PRINCIPAL_AUTHORIZED"
