"""One call of an MCP tool at a dataset agent, as one HTTP request: no session, no SDK.

Streamable HTTP of the protocol revision below has no handshake, so that a call is one POST and its
reply one JSON object, with the bounds and the address checks of every other reply
(``delegation.http``). The grant is in a header, and in nothing that the tool is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import httpx

from contract.canonical import InvalidJson, canonical_json, parse_json
from contract.verdict import Reason
from delegation.http import UNAVAILABLE, ReplyTooLarge, busy
from delegation.mcp_reply import from_tool_result
from delegation.reply import Reply

PROTOCOL: Final = "2026-07-28"
MAX_TOOLS: Final = 512
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_MAX_BYTES: Final = 2**31


class McpFault(Exception):
    """A reply that is no result; ``reply`` is the outcome it amounts to."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.message)
        self.reply = reply


async def call_tool(
    http: httpx.AsyncClient,
    url: str,
    name: str,
    arguments: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    timeout: float,
) -> Reply:
    """Call a tool once. ``headers`` are the client's assertion and the leaf for exactly this call.

    Never raises but for cancellation: what is late, missing or unreadable is an outcome like the
    others. Nothing of the reply is verified. Raises ``InvalidJson`` for arguments without a canonical form.
    """
    params = {"name": name, "arguments": dict(arguments)}
    try:
        return from_tool_result(await _ask(http, url, "tools/call", params, headers, name=name, timeout=timeout))
    except McpFault as fault:
        return fault.reply


async def list_tools(
    http: httpx.AsyncClient, url: str, headers: Mapping[str, str], *, timeout: float
) -> dict[str, dict[str, Any]]:
    """The declared tools by name, as they stand; none of them is callable by being listed. Raises ``McpFault``."""
    result = await _ask(http, url, "tools/list", {}, headers, timeout=timeout)
    tools = result.get("tools") if isinstance(result, dict) else None
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS or not all(isinstance(tool, dict) for tool in tools):
        raise _unreadable("its list of tools")
    return {str(tool.get("name")): tool for tool in tools}


async def _ask(
    http: httpx.AsyncClient,
    url: str,
    method: str,
    params: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    timeout: float,
    name: str | None = None,
) -> Any:
    body = canonical_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}})
    try:
        async with asyncio.timeout(timeout):
            response = await http.post(url, content=body, headers=_headers(method, name) | dict(headers))
    except (TimeoutError, httpx.TimeoutException) as error:
        raise McpFault(
            Reply.failed(Reason.REMOTE_TIMEOUT, "the MCP server did not answer in time; whether it ran is unknown")
        ) from error
    except ReplyTooLarge as error:
        raise McpFault(
            Reply.failed(Reason.REMOTE_RESPONSE_INVALID, f"the MCP server's reply is not read: {error}")
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise McpFault(Reply.failed(Reason.REMOTE_UNREACHABLE, "the MCP server cannot be reached")) from error
    return _result(response)


def _headers(method: str, name: str | None) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": PROTOCOL,
        "Mcp-Method": method,
    }
    return headers if name is None else headers | {"Mcp-Name": name}


def _result(response: httpx.Response) -> Any:
    status = response.status_code
    if status != httpx.codes.OK:
        reason = Reason.REMOTE_UNAVAILABLE if status in UNAVAILABLE else Reason.REMOTE_FAULT
        told = busy(response) if status in UNAVAILABLE else f"HTTP {status}"
        raise McpFault(Reply.failed(reason, f"the MCP server answered with {told}"))
    try:
        told = parse_json(response.content, limit=_MAX_BYTES)
    except InvalidJson as error:
        raise _unreadable("its reply") from error
    if not isinstance(told, dict) or told.get("jsonrpc") != "2.0" or told.get("id") != 1:
        raise _unreadable("its reply")
    if "error" in told:
        raise McpFault(Reply.failed(Reason.REMOTE_FAULT, "the MCP server answered with a protocol error"))
    return told.get("result")


def _unreadable(what: str) -> McpFault:
    return McpFault(Reply.failed(Reason.REMOTE_RESPONSE_INVALID, f"{what} is not one of an MCP server"))
