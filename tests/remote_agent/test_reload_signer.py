"""A reload asks the code that makes a signer, which may take its time, while the agent goes on answering."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from contract.settings import Settings
from grants.keys import init_keys
from root_agent.opening import close_service, open_service, reload_service
from tests.grants.grants_world import signer
from tests.running_agent import COMPARE, Asker, RunningAgent, decision_of, running_agent

pytestmark = pytest.mark.live


class Slow(ModuleType):
    """A module whose factory waits for a gate, which is open at first."""

    def __init__(self) -> None:
        super().__init__("slow_hsm")
        self.gate, self.asked = threading.Event(), threading.Event()
        self.gate.set()

    def factory(self, settings: Settings, name: str) -> object:
        self.asked.set()
        self.gate.wait()
        return signer(33)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    module = Slow()
    monkeypatch.setitem(sys.modules, "slow_hsm", module)
    yield module
    module.gate.set()


@pytest.fixture
def agent(tmp_path: Path, slow: Slow) -> Iterator[RunningAgent]:
    settings = Settings(home=tmp_path, remote_signer="slow_hsm:factory")
    init_keys(settings)
    with running_agent(settings) as running:
        yield running


def verdict(agent: RunningAgent) -> str:
    task = Asker(agent.settings, agent.url).ask("purification-batches", "compare_batches", COMPARE)
    return str(decision_of(task)["verdict"])


def test_calls_are_answered_while_a_reload_waits_for_the_signer(agent: RunningAgent, slow: Slow) -> None:
    slow.gate.clear()
    slow.asked.clear()
    reloading = threading.Thread(target=lambda: agent.run(agent.lifecycle.reload()))
    reloading.start()
    slow.asked.wait()
    assert verdict(agent) == "GRANTED"
    assert agent.lifecycle.status()["generation"] == 1
    slow.gate.set()
    reloading.join()
    assert (agent.lifecycle.status()["generation"], agent.lifecycle.fault) == (2, None)


def test_a_signer_that_is_never_made_refuses_the_reload_and_the_old_one_signs_on(
    agent: RunningAgent, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grants.signers.PATIENCE", 0.05)
    slow.gate.clear()
    agent.run(agent.lifecycle.reload())
    assert "no signer was made" in (agent.lifecycle.fault or "")
    assert verdict(agent) == "GRANTED"
    slow.gate.set()
    agent.run(agent.lifecycle.reload())
    assert agent.lifecycle.fault is None


async def test_the_root_agent_reloads_beside_its_event_loop_too(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path, root_signer="slow_hsm:factory")
    init_keys(settings)
    service = open_service(settings)
    monkeypatch.setattr("grants.signers.PATIENCE", 0.05)
    slow.gate.clear()
    before = service.world
    with pytest.raises(Exception, match="no signer was made"):
        await reload_service(settings, service)
    assert service.world is before
    slow.gate.set()
    monkeypatch.setattr("grants.signers.PATIENCE", 10.0)
    await reload_service(settings, service)
    assert service.world is not before
    await close_service(service)
