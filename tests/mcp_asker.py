"""Somebody who asks a dataset agent at its MCP door, with grants of their own making."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import httpx

from contract.call import Operation
from contract.canonical import canonical_json, sha256_hex
from contract.extension import GRANT_HEADER
from contract.mcp import MCP_METHOD, mcp_path
from contract.scope import Scope
from delegation.mcp import call_tool, list_tools
from delegation.reply import Reply
from grants.derive import derive, header_value
from grants.mint import mint_discovery
from tests.running_agent import Asker

DATASET = "purification-batches"


class McpAsker(Asker):
    """The same root agent in miniature at the other door."""

    def mcp_url(self, dataset: str = DATASET) -> str:
        return self.url + mcp_path(dataset)

    def call_hash(self, dataset: str, capability: str, arguments: Mapping[str, Any]) -> str:
        call = {"dataset": dataset, "capability": capability, "arguments": dict(arguments)}
        return sha256_hex(canonical_json(call))

    def tool_grant(
        self,
        capability: str,
        arguments: Mapping[str, Any],
        *,
        dataset: str = DATASET,
        scope: Scope | None = None,
        method: str = MCP_METHOD,
        **changes: Any,
    ) -> str:
        """The header value for one tool call."""
        operation = Operation(method, call_hash=self.call_hash(dataset, capability, arguments))
        return self.grant(scope or self.scope(dataset, capability), operation, **changes)

    def discover_grant(self, principal: str, **mint: Any) -> str:
        now = time.time()
        token = mint_discovery(
            self.issuer,
            issuer_url=self.settings.issuer_url,
            principal=Asker(self.settings, self.url, principal=principal)._principal(),
            holder=self.trust.agents[self.settings.root_id],
            rctx={"trace_id": self.trace_id or "0" * 32},
            now=now,
            **mint,
        )
        audience = self.trust.agents[self.settings.agent_id]
        return header_value(derive((token,), self.holder, audience=audience, operation=Operation("discover"), now=now))

    def mcp_headers(self, grant: str | None = None, **changes: Any) -> dict[str, str]:
        headers = self.headers(extension=False, **changes)
        return {name: value for name, value in headers.items() if name == "Authorization"} | (
            {} if grant is None else {GRANT_HEADER: grant}
        )

    def call_tool(
        self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str], *, dataset: str = DATASET
    ) -> Reply:
        return asyncio.run(self.called(tool, arguments, headers, dataset=dataset))

    async def called(
        self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str], *, dataset: str = DATASET
    ) -> Reply:
        async with httpx.AsyncClient() as http:
            return await call_tool(http, self.mcp_url(dataset), tool, arguments, headers, timeout=30)

    def ask_tool(self, tool: str, arguments: Mapping[str, Any], *, capability: str | None = None) -> Reply:
        """One governed tool call."""
        grant = self.tool_grant(capability or tool, arguments)
        return self.call_tool(tool, arguments, self.mcp_headers(grant))

    def tools(self, headers: Mapping[str, str], *, dataset: str = DATASET) -> dict[str, dict[str, Any]]:
        async def listed() -> dict[str, dict[str, Any]]:
            async with httpx.AsyncClient() as http:
                return await list_tools(http, self.mcp_url(dataset), headers, timeout=30)

        return asyncio.run(listed())
