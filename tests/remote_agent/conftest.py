"""One served dataset agent for the tests that do not change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote_agent.long_world import BINDINGS, Client, Held, held
from tests.running_agent import Asker, RunningAgent, agent_home, running_agent


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("home"))) as served:
        yield served


@pytest.fixture
def asker(agent: RunningAgent) -> Asker:
    return Asker(agent.settings, agent.url)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def rpc(agent: RunningAgent) -> Client:
    """A person's client over JSON-RPC."""
    return Client(agent)


@pytest.fixture(params=BINDINGS)
def client(agent: RunningAgent, request: pytest.FixtureRequest) -> Client:
    """The same over each binding."""
    return Client(agent, request.param)


@pytest.fixture
def holding(agent: RunningAgent) -> Iterator[Held]:
    """Executions that are counted, and wait until they are released."""
    with held(agent) as executions:
        yield executions
