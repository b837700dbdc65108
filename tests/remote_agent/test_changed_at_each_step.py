"""At whatever moment of a call its ground is taken away: no row leaves from then on to the last check, and one terminal row is left."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest

from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, Operation
from contract.canonical import sha256_hex
from contract.settings import Settings
from contract.verdict import Verdict
from remote_agent.service import Service
from tests.remote_agent.stepping import Stepped, Steps, stepped
from tests.running_agent import Asker, agent_home, message, task_of

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "compare_batches"
Change = Callable[[Service], None]
Ask = Callable[[Any, Steps], Awaitable[httpx.Response]]


def no_issuer_key(service: Service) -> None:
    trust = service.trust
    issuers = {url: replace(issuer, keys=()) for url, issuer in trust.issuers.items()}
    service.trust = replace(trust, issuers=issuers)


def no_client(service: Service) -> None:
    trust = service.trust
    own = {name: agent for name, agent in trust.agents.items() if name == service.agent_id}
    service.trust = replace(trust, agents=own)


def silent_client(service: Service) -> None:
    trust = service.trust
    service.trust = replace(trust, agents={name: replace(agent, asks=False) for name, agent in trust.agents.items()})


def other_policies_accepted(service: Service) -> None:
    service.trust = replace(service.trust, policy_versions=frozenset({"another"}))


def no_dataset(service: Service) -> None:
    service.world = replace(service.world, datasets={})


def no_person(service: Service) -> None:
    world = service.world
    service.world = replace(world, directory=replace(world.directory, by_identity={}))


def other_template(service: Service) -> None:
    world = service.world
    served = world.datasets[DATASET]
    capability = served.capabilities[CAPABILITY]
    other = replace(capability, template=replace(capability.template, digest="0" * 64))
    changed = replace(served, capabilities={**served.capabilities, CAPABILITY: other})
    service.world = replace(world, datasets={**world.datasets, DATASET: changed})


CHANGES: dict[Change, set[str]] = {
    no_issuer_key: {"GRANT_KEY_UNTRUSTED"},
    no_client: {"GRANT_KEY_UNTRUSTED"},
    silent_client: {"GRANT_KEY_UNTRUSTED"},
    other_policies_accepted: {"UNKNOWN_POLICY_VERSION"},
    no_dataset: {"MISSING_DESCRIPTOR", "UNKNOWN_DATASET_REVISION"},
    no_person: {"UNKNOWN_PRINCIPAL"},
}
OTHER_RESULT: dict[Change, set[str]] = {other_template: {"GRANT_WIDENED"}}
"""What is judged anew without being refused: then what waits is the result of something else."""


class Stepping:
    """Somebody who asks the agent, with a request of their own for every step."""

    def __init__(self, settings: Settings, agent: Stepped) -> None:
        self.agent = agent
        self._asker = Asker(settings, "http://agent.test")
        self._pairs = itertools.permutations(range(1, 200), 2)

    def fresh(self) -> dict[str, str]:
        first, second = next(self._pairs)
        return {"batch_a": f"B{first:03d}", "batch_b": f"B{second:03d}"}

    async def call(self, steps: Steps, arguments: dict[str, str], **configuration: Any) -> httpx.Response:
        asker = self._asker
        call = asker.call(DATASET, CAPABILITY, arguments)
        grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
        params = {"message": message(call), "configuration": configuration}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        return await self.agent.send(steps, "POST", "/", json=body, headers=asker.headers(grant))

    async def missed(self, steps: Steps) -> httpx.Response:
        return await self.call(steps, self.fresh())

    async def found(self, steps: Steps) -> httpx.Response:
        arguments = self.fresh()
        await self.call(Steps(), arguments)
        return await self.call(steps, arguments)

    async def fetched(self, steps: Steps) -> httpx.Response:
        task = task_of(await self.call(Steps(), self.fresh(), acceptedOutputModes=[ARROW_MEDIA_TYPE]))
        asker = self._asker
        grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation(GET_RESULTS, task=task["id"]))
        return await self.agent.send(steps, "GET", f"/results/{task['id']}", headers=asker.headers(grant))


def rows_in(response: httpx.Response) -> bool:
    """Whether a reply, or what is fetched, has rows."""
    if not response.headers["content-type"].startswith("application/json"):
        return response.headers["content-type"] == ARROW_MEDIA_TYPE
    return "artifacts" in task_of(response)


async def _at_every_step(settings: Settings, ask: Ask, changes: dict[Change, set[str]]) -> None:
    async with stepped(settings) as agent:
        asking, service = Stepping(settings, agent), agent.service
        first = service.world, service.trust
        await ask(asking, Steps())
        await ask(asking, whole := Steps())
        for change, at in itertools.product(changes, range(1, whole.taken + 1)):
            steps = Steps(at, partial(change, service))
            has_rows = rows_in(await ask(asking, steps))
            service.world, service.trust = first
            row = agent.row()
            assert (row.verdict is Verdict.GRANTED) == has_rows, (change, at)
            if at <= steps.judged:
                assert row.reason in changes[change], (change, at)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return agent_home(tmp_path_factory.mktemp("stepped") / "home", watch_interval=0)


def test_no_stored_row_leaves_after_its_ground_is_gone(settings: Settings) -> None:
    asyncio.run(_at_every_step(settings, Stepping.found, CHANGES))


def test_no_row_that_runs_leaves_after_its_ground_is_gone(settings: Settings) -> None:
    asyncio.run(_at_every_step(settings, Stepping.missed, {no_client: CHANGES[no_client]}))


def test_no_result_that_waits_is_fetched_after_its_ground_is_gone(settings: Settings) -> None:
    asyncio.run(_at_every_step(settings, Stepping.fetched, CHANGES | OTHER_RESULT))
