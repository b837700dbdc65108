"""Delegation by a tool of a dataset agent's MCP server: one governed tool object for one attempt.

The tool takes no argument: what it calls was admitted before, and is in its exchange. ADK gets the
typed outcome and nothing else, so that no row and no text of another agent is in a session. The tool
is callable because a verified card names it; that a server lists one makes none callable, and one that
is declared with other arguments than the card's is not called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from contract.errors import DatasetAgentError, SignerUnavailable
from contract.extension import GRANT_HEADER
from contract.mcp import mcp_path
from contract.verdict import VERDICTS, NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from control_plane.tools import tools_of
from delegation.cards import RemoteCard
from delegation.mcp import McpFault, call_tool, list_tools
from delegation.remote import Exchange
from delegation.reply import Outcome, Reply
from delegation.sending import Sent

TOOL_NAME = "mcp_dataset_tool"


@dataclass(frozen=True, slots=True)
class ToolPlace:
    """Where a tool is, and how the verified card declares its arguments (JSON Schema)."""

    url: str
    name: str
    input_schema: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, card: RemoteCard, descriptor: DatasetDescriptor, name: str) -> ToolPlace:
        """As the verified card says, at the card's own address. Raises UNREGISTERED_CAPABILITY."""
        tool = tools_of(descriptor).get(name)
        if tool is None:
            raise NotGranted(Reason.UNREGISTERED_CAPABILITY, "the card names no such tool of an MCP server")
        url = card.rpc_url.rstrip("/") + mcp_path(descriptor.dataset)
        return cls(url, name, tool.declaration()["inputSchema"])


class McpTool(BaseTool):
    """Calls the exchange's tool once, as ``Delegate`` sends a message once. Never raises but for cancellation."""

    def __init__(self, place: ToolPlace, exchange: Exchange, http: httpx.AsyncClient) -> None:
        super().__init__(name=TOOL_NAME, description="Calls one admitted tool of the dataset agent that serves it.")
        self._place = place
        self._exchange = exchange
        self._http = http

    @property
    def exchange(self) -> Exchange:
        return self._exchange

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={"type": "object", "properties": {}, "additionalProperties": False},
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        exchange = self._exchange
        try:
            exchange.sent = await asyncio.to_thread(exchange.prepare) if exchange.waits else exchange.prepare()
            exchange.settle(await self._called(exchange.sent))
        except NotGranted as stop:
            verdict = VERDICTS[stop.reason].value
            exchange.settle(Reply(outcome=Outcome(verdict), reason=stop.reason, message=stop.message))
        except SignerUnavailable:
            exchange.settle(Reply.failed(Reason.KEYS_UNAVAILABLE, "a key of this agent cannot be used now"))
        except DatasetAgentError:
            exchange.settle(Reply.failed(Reason.REMOTE_FAULT, "the call was not sent"))
        reply = exchange.reply
        return {
            "outcome": reply.outcome.value,
            "reason": reply.reason.value if reply.reason else None,
            "task_id": reply.task_id,
        }

    async def _called(self, sent: Sent) -> Reply:
        place, call = self._place, self._exchange.call
        known = {name: value for name, value in sent.headers.items() if name != GRANT_HEADER}
        try:
            async with asyncio.timeout(self._exchange.timeout):
                listed = await list_tools(self._http, place.url, known, timeout=self._exchange.timeout)
                _check_declared(place, listed)
                return await call_tool(
                    self._http, place.url, place.name, call.arguments, sent.headers, timeout=self._exchange.timeout
                )
        except McpFault as fault:
            return fault.reply
        except TimeoutError:
            return Reply.failed(
                Reason.REMOTE_TIMEOUT, "the MCP server did not answer in time; whether it ran is unknown"
            )


def _check_declared(place: ToolPlace, listed: Mapping[str, Mapping[str, Any]]) -> None:
    """That the server declares the tool as the card does. Raises REMOTE_RESPONSE_INVALID."""
    declared = listed.get(place.name)
    if declared is None:
        raise NotGranted(
            Reason.REMOTE_RESPONSE_INVALID,
            f"the MCP server does not offer the tool {place.name}: it is not a registered capability there",
        )
    if declared.get("inputSchema") != place.input_schema:
        raise NotGranted(
            Reason.REMOTE_RESPONSE_INVALID, f"the MCP server declares other arguments of {place.name} than the card"
        )
