"""One served dataset agent for the tests that do not change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
