"""One served dataset agent per module, and the command of somebody who asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dataset_agent.command_line import CommandLine, command_for
from tests.running_agent import RunningAgent, agent_home, running_agent


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("agent"))) as running:
        yield running


@pytest.fixture(scope="module")
def command(agent: RunningAgent) -> CommandLine:
    return command_for(agent.settings, URL=agent.url)
