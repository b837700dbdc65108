"""One poisoned world for a test file, and one scripted agent's server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adversarial.poisoned_world import PoisonedWorld, poisoned_world
from tests.root_agent.scripted_remote import AgentServer


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoisonedWorld]:
    with poisoned_world(tmp_path_factory.mktemp("poisoned")) as world:
        yield world


@pytest.fixture(scope="module")
def agent_server() -> Iterator[AgentServer]:
    server = AgentServer()
    server.start()
    yield server
    server.stop()
