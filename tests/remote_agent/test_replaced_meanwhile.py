"""What a call was admitted under is replaced while it is answered: its rows, found or run, are then nobody's."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from control_plane.policy import PolicyAnswer, PolicyRequest
from remote_agent.service import ServedDataset, World
from tests.engine_taps import tap
from tests.remote_agent.clocked_world import cache_at
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, running_agent, task_of

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"
STALE = "UNKNOWN_DATASET_REVISION"
Change = Callable[[World, str], World]
"""A world with one thing replaced, which has the name given."""


@dataclass(frozen=True)
class Newer:
    """The policies of another evaluator in a newer version, which say the same."""

    before: Any
    name: str

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        answer: PolicyAnswer = await self.before.evaluate(request)
        return replace(answer, policy_version=self.name)

    def version(self) -> str:
        return self.name


def described(member: str) -> Change:
    def change(world: World, name: str) -> World:
        served = world.datasets[DATASET]
        descriptor = served.descriptor.model_copy(update={member: name})
        engine: Any = copy(served.engine)  # the data are the same, under another name
        vars(engine).pop("stream", None)  # what a test holds is the engine before it
        engine._version, engine._revision = descriptor.version, descriptor.revision
        return with_dataset(world, replace(served, descriptor=descriptor, engine=engine))

    return change


def template(world: World, name: str) -> World:
    served = world.datasets[DATASET]
    capability = served.capabilities[CAPABILITY]
    newer = replace(capability, template=replace(capability.template, digest=sha256_hex(name.encode())))
    return with_dataset(world, replace(served, capabilities={**served.capabilities, CAPABILITY: newer}))


def policy(world: World, name: str) -> World:
    return replace(world, evaluator=Newer(world.evaluator, name), policy_version=name)


def with_dataset(world: World, served: ServedDataset) -> World:
    return replace(world, datasets={**world.datasets, DATASET: served}, generation=world.generation + 1)


CHANGES: dict[str, Change] = {
    "revision": described("revision"),
    "version": described("version"),
    "schema": described("schema_version"),
    "template": template,
    "policy": policy,
}


@dataclass
class Changing:
    """An agent whose world a test replaces in the middle of a call."""

    agent: RunningAgent
    asker: Asker
    first: World
    pairs: Iterator[tuple[int, int]]
    names: Iterator[int]

    @property
    def service(self) -> Any:
        return self.agent.lifecycle.service

    def fresh(self) -> dict[str, str]:
        """Arguments that nobody asked with before."""
        first, second = next(self.pairs)
        return {"batch_a": f"B{first:03d}", "batch_b": f"B{second:03d}"}

    def replaced(self, change: Change) -> None:
        self.service.world = change(self.service.world, f"new-{next(self.names)}")

    def ask(self, arguments: dict[str, str]) -> dict[str, Any]:
        """One call under a grant for what is served when it is sent."""
        asker, descriptor = self.asker, self.service.world.datasets[DATASET].descriptor
        scope = asker.scope(DATASET, CAPABILITY, dataset_version=descriptor.version, revision=descriptor.revision)
        call = asker.call(DATASET, CAPABILITY, arguments)
        grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
        return task_of(asker.send(call, asker.headers(grant)))

    def reason(self, arguments: dict[str, str]) -> str:
        task = self.ask(arguments)
        assert ("artifacts" in task) == (decision_of(task)["verdict"] == "GRANTED")
        return str(decision_of(task)["reason"])

    def outcome(self, arguments: dict[str, str]) -> str:
        task = self.ask(arguments)
        assert CACHE_KEY in task["metadata"], decision_of(task)
        return str(task["metadata"][CACHE_KEY]["outcome"])

    def last_row(self) -> Any:
        return self.agent.rows()[-1].cells


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changing]:
    """An agent whose results are stored in a file, and one whose results are at a server."""
    folder = tmp_path_factory.mktemp("replaced")
    with cache_at(request.param, folder) as at:
        settings = agent_home(folder / "home", **at)
        with running_agent(settings) as agent:
            pairs = itertools.permutations(range(1, 60), 2)
            yield Changing(agent, Asker(settings, agent.url), agent.lifecycle.service.world, pairs, itertools.count())


@pytest.fixture
def world(shared: Changing) -> Iterator[Changing]:
    yield shared
    shared.service.world = shared.first


@contextmanager
def after(target: Any, method: str, happens: Callable[[], None]) -> Iterator[None]:
    """``happens`` once, when ``target.method`` has answered the next time."""
    inner = getattr(target, method)

    async def once(*args: Any, **kwargs: Any) -> Any:
        found = await inner(*args, **kwargs)
        setattr(target, method, inner)
        happens()
        return found

    setattr(target, method, once)
    try:
        yield
    finally:
        setattr(target, method, inner)


def check_missed_once(world: Changing, arguments: dict[str, str]) -> None:
    """What was stored before is found no more, and what is stored now is."""
    assert [world.outcome(arguments), world.outcome(arguments)] == ["MISS", "HIT"]


@pytest.mark.parametrize("name", CHANGES)
def test_replaced_between_admission_and_lookup(world: Changing, name: str) -> None:
    arguments = world.fresh()
    assert [world.outcome(arguments), world.outcome(arguments)] == ["MISS", "HIT"]
    with after(world.service.state, "spend", lambda: world.replaced(CHANGES[name])):
        assert world.reason(arguments) == STALE
    assert (world.last_row()["rows_returned"], world.last_row()["cache"]) == (None, None)
    check_missed_once(world, arguments)


@pytest.mark.parametrize("name", CHANGES)
def test_replaced_between_lookup_and_return(world: Changing, name: str) -> None:
    arguments = world.fresh()
    assert world.outcome(arguments) == "MISS"
    with after(world.service.cache, "find", lambda: world.replaced(CHANGES[name])):
        assert world.reason(arguments) == STALE
    check_missed_once(world, arguments)


@pytest.mark.parametrize("name", CHANGES)
def test_replaced_while_the_last_check_is_made(world: Changing, name: str) -> None:
    arguments = world.fresh()
    assert world.outcome(arguments) == "MISS"
    with after(world.service.state, "recheck", lambda: world.replaced(CHANGES[name])):
        assert world.reason(arguments) == STALE
    check_missed_once(world, arguments)


@dataclass
class Held:
    """An engine that waits to be let go."""

    running: threading.Event
    go: threading.Event


@pytest.fixture
def held(world: Changing) -> Iterator[Held]:
    found = Held(threading.Event(), threading.Event())

    async def slow(_: Any) -> None:
        found.running.set()
        await asyncio.to_thread(found.go.wait, 30)

    undo = tap(world.first.datasets[DATASET].engine, before=slow)
    yield found
    found.go.set()
    undo()


@pytest.mark.parametrize("name", CHANGES)
def test_replaced_while_leading_and_while_following(world: Changing, held: Held, name: str) -> None:
    arguments, waits = world.fresh(), threading.Event()
    with ThreadPoolExecutor() as pool:
        leading = pool.submit(world.reason, arguments)
        assert held.running.wait(30)
        with after(world.service.cache, "find", waits.set):
            following = pool.submit(world.reason, arguments)
            assert waits.wait(30)
        world.replaced(CHANGES[name])
        held.go.set()
        assert (leading.result(30), following.result(30)) == (STALE, STALE)
    check_missed_once(world, arguments)


def test_a_reload_that_changes_nothing_of_it_disturbs_no_call(world: Changing, held: Held) -> None:
    arguments, waits = world.fresh(), threading.Event()

    def unrelated(before: World, name: str) -> World:
        other = before.datasets["chromatography-results"]
        changed = replace(other, descriptor=other.descriptor.model_copy(update={"revision": name}))
        return replace(before, datasets={**before.datasets, "chromatography-results": changed})

    with ThreadPoolExecutor() as pool:
        leading = pool.submit(world.outcome, arguments)
        assert held.running.wait(30)
        with after(world.service.cache, "find", waits.set):
            following = pool.submit(world.outcome, arguments)
            assert waits.wait(30)
        world.replaced(unrelated)
        held.go.set()
        assert (leading.result(30), following.result(30)) == ("MISS", "HIT")


def test_who_may_not_any_more_is_told_the_reason_that_holds_now(world: Changing) -> None:
    arguments = world.fresh()
    assert world.outcome(arguments) == "MISS"

    def withdrawn(before: World, _: str) -> World:
        return replace(before, datasets={})

    with after(world.service.cache, "find", lambda: world.replaced(withdrawn)):
        assert world.reason(arguments) == "MISSING_DESCRIPTOR"


def test_a_policy_server_that_stated_another_version_meanwhile_is_asked_again(world: Changing) -> None:
    arguments = world.fresh()
    world.service.world = replace(world.first, evaluator=(stating := Stating(world.first.evaluator)))
    assert world.outcome(arguments) == "MISS"
    with after(world.service.cache, "find", stating.next):
        assert world.reason(arguments) == STALE
    check_missed_once(world, arguments)


class Stating:
    """An evaluator whose policies change behind it, as those of a policy server do."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self._number = 1

    def next(self) -> None:
        self._number += 1

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        answer: PolicyAnswer = await self._before.evaluate(request)
        return replace(answer, policy_version=self.version())

    def version(self) -> str:
        return f"stated-{self._number}"
