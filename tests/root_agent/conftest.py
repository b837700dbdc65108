"""One scripted dataset agent's server for a test file, and a world of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.root_agent.root_world import RootWorld, root_world
from tests.root_agent.scripted_remote import AgentServer


@pytest.fixture(scope="module")
def agent_server() -> Iterator[AgentServer]:
    server = AgentServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def world(tmp_path: Path, agent_server: AgentServer) -> AsyncIterator[RootWorld]:
    async with root_world(tmp_path, agent_server) as built:
        yield built
