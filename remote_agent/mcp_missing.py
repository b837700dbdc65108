"""What stands at the MCP door of an agent that was installed without the extra ``mcp``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive, Scope, Send

from contract.errors import Category, Component, DatasetAgentError

INSTALL = "this agent was installed without MCP: pip install 'dataset-agent[mcp]', or ask it over A2A"


class NoMcpDoor:
    """Says what to install, whatever is asked."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise DatasetAgentError(
            Component.REMOTE_AGENT, Category.CONFIGURATION, "remote_agent.mcp.not_installed", INSTALL
        )
