"""The second door: each dataset that has the endpoint ``mcp`` as an MCP server at ``/mcp/{dataset}``.

Streamable HTTP without sessions, JSON replies. The caller was authenticated before
(``authentication.Gate``). What they may do comes by the ``Execution-Grant`` header alone, which is
taken out of the request before the SDK sees it: nothing in arguments or ``_meta`` is authority. A
call is then answered by the same path as one over A2A. Needs the extra ``mcp``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import mcp.types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from contract.call import RESULT_MEDIA_TYPE, Operation
from contract.canonical import InvalidJson, canonical_json, parse_json, sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.extension import GRANT_HEADER
from contract.mcp import MCP_METHOD
from contract.verdict import Reason, Verdict
from control_plane.descriptor import DatasetDescriptor
from control_plane.tools import Tool, served_by_mcp, tools_of
from remote_agent.authentication import BODY, CALLER
from remote_agent.caller import Caller, PresentedGrants
from remote_agent.discover import DISCOVER
from remote_agent.incoming import GRANTS_KEY
from remote_agent.mcp_result import tool_result
from remote_agent.outcome import Answer
from remote_agent.outcome import Request as Governed
from remote_agent.service import ServedDataset, Service
from remote_agent.siblings import Siblings
from remote_agent.underway import Underway

Answerer = Callable[[Governed, Underway], Awaitable[Answer]]
Discoverer = Callable[[Governed], Awaitable[tuple[Answer, Sequence[DatasetDescriptor]]]]
Context = ServerRequestContext[Any, Request]

_GRANT: Final = GRANT_HEADER.lower().encode()
_DATASET: Final = "dataset_agent.dataset"


class McpDoor:
    """The ASGI application behind ``/mcp/{dataset}``. ``answer`` and ``discover`` do the work.

    It works inside ``running`` only.
    """

    def __init__(
        self, service: Service, answer: Answerer, discover: Discoverer, siblings: Siblings, *, version: str
    ) -> None:
        self._service = service
        self._answer = answer
        self._discover = discover
        self._siblings = siblings
        server: Server[Any] = Server(
            service.agent_id,
            version=version,
            # Without it the SDK lists the tools before each call, and a listing takes the grant for itself.
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        server.middleware.clear()  # its spans would hold the text of errors
        # As many bytes as the gate let through.
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=2**62
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # there is no session to listen to, nor to end
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body", "body": b""})
            return
        dataset = str(scope["path_params"]["dataset"])
        if self._served(dataset) is None:
            raise _fault(Category.NOT_FOUND, "dataset", "no dataset is served behind MCP at this address")
        try:
            message = parse_json(scope[BODY], limit=len(scope[BODY]))
        except InvalidJson as error:  # the SDK's reader takes the last of two members of one name
            raise _fault(Category.INVALID_INPUT, "body", f"the body is not acceptable: {error}") from error
        if not _is_one_message(message):  # the SDK would say so by quoting it
            raise _fault(Category.INVALID_INPUT, "body", "the body is not one request or notification of JSON-RPC 2.0")
        grants = tuple(value.decode("latin-1") for name, value in scope["headers"] if name == _GRANT)
        headers = [pair for pair in scope["headers"] if pair[0] != _GRANT]
        inner = {**scope, "headers": headers, GRANTS_KEY: PresentedGrants(grants), _DATASET: dataset}
        await self._manager.handle_request(inner, receive, send)

    def _served(self, dataset: str) -> ServedDataset | None:
        """As it is served at this moment: nothing of it is remembered from one request to the next."""
        served = self._service.world.datasets.get(dataset)
        return served if served is not None and served_by_mcp(served.descriptor) else None

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """The tools that the client may know; under a ``discover`` leaf those that its person may call."""
        scope = _scope_of(ctx)
        caller, grants, dataset = _caller(scope), _taken(scope), str(scope[_DATASET])
        tools = self._tools(dataset)
        if grants:
            asked = Governed(
                client=caller.agent,
                operation=DISCOVER,
                grants=grants,
                on_behalf_of=caller.person,
                trace_id=caller.trace_id,
            )
            found, shown = await self._discover(asked)
            if found.decision.reason is Reason.GRANT_OPERATION_MISMATCH:
                return _listed(tools)  # MCP clients list around a call, with the headers of the call
            if found.decision.verdict is not Verdict.GRANTED:
                words = f"{found.decision.reason}: {found.decision.rationale}"
                raise MCPError(types.INVALID_PARAMS, words)
            may = {capability.name for view in shown if view.dataset == dataset for capability in view.capabilities}
            tools = [tool for tool in tools if tool.capability.name in may]
        return _listed(tools)

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        scope = _scope_of(ctx)
        caller, task_id = _caller(scope), self._siblings.new_task_id()
        call = self._bytes(str(scope[_DATASET]), params.name, params.arguments or {})
        request = Governed(
            client=caller.agent,
            on_behalf_of=caller.person,
            operation=Operation(MCP_METHOD, call_hash=sha256_hex(call)),
            grants=_taken(scope),
            call=call,
            trace_id=caller.trace_id,
            task_id=task_id,
            media_type=RESULT_MEDIA_TYPE,
            tool=params.name,
        )
        answer = await self._answer(request, Underway())
        return types.CallToolResult.model_validate(tool_result(answer, task_id))

    def _tools(self, dataset: str) -> list[Tool]:
        served = self._served(dataset)
        if served is None:
            return []
        return [tool for tool in tools_of(served.descriptor).values() if tool.capability.name in served.capabilities]

    def _bytes(self, dataset: str, name: str, arguments: dict[str, Any]) -> bytes:
        """The call that the tool stands for, in its RFC 8785 form: what its leaf is bound to.

        What has no such form is an empty call, which no leaf matches by accident. A name that is none
        of a tool stands for itself, so that it is refused, and recorded, by the path.
        """
        served = self._served(dataset)
        tool = None if served is None else tools_of(served.descriptor).get(name)
        capability = name if tool is None else tool.capability.name
        try:
            return canonical_json({"dataset": dataset, "capability": capability, "arguments": arguments})
        except InvalidJson:
            return b""


def _is_one_message(value: Any) -> bool:
    """Whether a body is one JSON-RPC 2.0 request or notification. Several at once are none: a leaf is for one call."""
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str):
        return False
    named = "id" not in value or type(value["id"]) in (str, int)
    return named and isinstance(value.get("params", {}), dict | None)


def _listed(tools: Sequence[Tool]) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool.model_validate(tool.declaration()) for tool in tools])


def _scope_of(ctx: Context) -> AsgiScope:
    if ctx.request is None:
        raise MCPError(types.INTERNAL_ERROR, "the request did not come by HTTP")
    return ctx.request.scope


def _caller(scope: AsgiScope) -> Caller:
    caller: Caller = scope[CALLER]
    return caller


def _taken(scope: AsgiScope) -> tuple[str, ...]:
    presented: PresentedGrants = scope[GRANTS_KEY]
    return presented.take()


def _fault(category: Category, what: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.REMOTE_AGENT, category, f"remote_agent.mcp.{what}", message)
