"""Every role's key is changed while a root agent and a dataset agent answer calls, and no call fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from contract.settings import Settings
from contract.signing import PublicKey
from contract.verdict import Verdict
from dataset_agent.login import identity_token
from evidence.provenance import verify_saved
from evidence.verify import verify_ledger
from grants.key_store import KeyName
from grants.rotation import AHEAD, RETIRE_AFTER, accepted_keys, retire, stage, switch
from grants.signers import open_signer
from grants.trust import load_trust
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from root_agent.opening import close_service, open_service, reload_service
from root_agent.service import Service
from tests.running_agent import COMPARE, RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

CALL = {"dataset": "purification-batches", "capability": "compare_batches", "arguments": COMPARE}


@dataclass
class Live:
    """Both agents, and askings that never stop while ``asking`` lasts."""

    agent: RunningAgent
    settings: Settings
    service: Service
    answers: list[Answer] = field(default_factory=list)

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        root = RootAgent(self.service)

        async def forever() -> None:
            while not stop.is_set():
                self.answers.append(await root.ask(identity_token(self.settings, "process_engineer"), call=CALL))

        askings = [asyncio.create_task(forever()) for _ in range(3)]
        try:
            await self.a_few_more(askings)
            yield
            await self.a_few_more(askings)
        finally:
            stop.set()
            await asyncio.gather(*askings)
            await root.close()

    async def a_few_more(self, askings: list[asyncio.Task[None]] | None = None) -> None:
        """Until calls that begin now have ended, so that nothing older is under way."""
        enough = len(self.answers) + 7
        while len(self.answers) < enough and not any(task.done() for task in askings or ()):
            await asyncio.sleep(0.005)

    async def reload(self, *order: str) -> None:
        for who in order:
            if who == "root":
                await reload_service(self.settings, self.service)
            else:
                await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(self.agent.lifecycle.reload(), self.agent.loop)
                )
                assert self.agent.lifecycle.fault is None
            await self.a_few_more()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path)) as running:
        yield running


@pytest.fixture
async def live(agent: RunningAgent) -> AsyncIterator[Live]:
    settings = agent.settings.model_copy(update={"url": agent.url})
    service = open_service(settings)
    yield Live(agent, settings, service)
    await close_service(service)


def every_key(settings: Settings, agent_id: str) -> tuple[PublicKey, ...]:
    return load_trust(settings.trust_path).agents[agent_id].every_key


async def test_no_call_fails_while_every_key_is_changed_and_what_was_signed_before_still_verifies(
    live: Live,
) -> None:
    settings = live.settings
    before = {name: open_signer(settings, name).public_key for name in KeyName}
    async with live.asking():
        now = time.time()
        for name, order in zip(KeyName, 2 * [("root", "remote"), ("remote", "root")], strict=True):
            stage(settings, name, now=now)
            await live.reload(*order)
            switch(settings, name, now=now + AHEAD)
            await live.a_few_more()
            await live.reload(*order)
            retire(settings, name, before[name].thumbprint, now=now + AHEAD + RETIRE_AFTER[name])
            await live.a_few_more()
            await live.reload(*order)
    assert [answer.decision.rationale for answer in live.answers if answer.verdict is not Verdict.GRANTED] == []
    assert {
        name: len(accepted_keys(settings, name, load_trust(settings.trust_path))) for name in KeyName
    } == dict.fromkeys(KeyName, 1)
    assert all(open_signer(settings, name).public_key != before[name] for name in KeyName)
    kids = verified_envelopes(live)
    assert len(kids) == 2
    for agent_id, side in ((settings.agent_id, "remote"), (settings.root_id, "root")):
        report = verify_ledger(settings.home / side / "ledger.sqlite", every_key(settings, agent_id))
        assert (report.ok, report.problem) == (True, None)
        assert len(report.signed_by) == 2


def verified_envelopes(live: Live) -> set[str]:
    """The kids by which every answer of the run verifies now, offline."""
    keys, kids = every_key(live.settings, live.settings.agent_id), set()
    for answer in live.answers:
        verified = answer.asking.verified
        assert verified is not None
        body = verified.document.body
        _, key = verify_saved(dict(verified.envelope), keys, body=body, agent_id=live.settings.agent_id)
        kids.add(key.thumbprint)
    return kids


async def test_a_reload_takes_over_nothing_where_a_key_is_broken(live: Live) -> None:
    signs = live.service.holder.public_key
    (live.settings.root_dir / "holder.jwk").chmod(0o644)
    with pytest.raises(Exception, match="chmod 600"):
        await reload_service(live.settings, live.service)
    assert live.service.holder.public_key == signs
    (live.settings.remote_dir / "agent.jwk").chmod(0o644)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(live.agent.lifecycle.reload(), live.agent.loop))
    assert "chmod 600" in (live.agent.lifecycle.fault or "")
    async with live.asking():
        pass
    assert {answer.verdict for answer in live.answers} == {Verdict.GRANTED}


async def test_a_key_that_was_retired_is_refused_from_the_next_reload_on(live: Live) -> None:
    now = time.time()
    old = live.service.holder.public_key.thumbprint
    switch(live.settings, KeyName.ROOT, now=now, at_once=True)
    retire(live.settings, KeyName.ROOT, old, now=now, force=True)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(live.agent.lifecycle.reload(), live.agent.loop))
    root = RootAgent(live.service)
    answer = await root.ask(identity_token(live.settings, "process_engineer"), call=CALL)
    assert answer.verdict is not Verdict.GRANTED
    await reload_service(live.settings, live.service)
    answer = await root.ask(identity_token(live.settings, "process_engineer"), call=CALL)
    assert answer.verdict is Verdict.GRANTED
    await root.close()
