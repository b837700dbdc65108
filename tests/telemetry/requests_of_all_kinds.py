"""Requests of all kinds, each in a trace of its own, with marked values wherever something can be said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from contract.call import ARROW_MEDIA_TYPE, Operation
from contract.canonical import canonical_json, sha256_hex
from contract.mcp import mcp_path
from contract.trace_context import TraceContext, new_span_id, new_trace_id
from delegation.mcp import PROTOCOL
from tests.engine_taps import tap
from tests.large_world import DATASET, MARKER, Fetcher
from tests.mcp_asker import McpAsker
from tests.running_agent import message
from tests.telemetry.traced_world import ADMIN, TracedWorld

WORDS = f"few readings below 40 for {MARKER}"
FEW = {"dataset": DATASET, "capability": "few"}


@dataclass
class Asked:
    """What was asked: its name, the trace that it ``offered``, once more where that may be believed, and the answer."""

    name: str
    offered: str
    trace_id: str | None
    status: int
    body: str


class Sender(McpAsker, Fetcher):
    """A client of the dataset agent that says a trace, and more, beside each request."""

    beside: dict[str, str]
    sent: set[str]

    def grant(self, *args: Any, **kwargs: Any) -> str:
        made = super().grant(*args, **kwargs)
        self.sent.update(made.split(","))
        return made

    def headers(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        headers = super().headers(*args, **kwargs)
        self.sent.add(headers.get("Authorization", "Bearer none").removeprefix("Bearer "))
        return headers | self.beside

    def mcp_headers(self, grant: str | None = None, **changes: Any) -> dict[str, str]:
        return super().mcp_headers(grant, **changes) | self.beside

    def few(self, below: Any, capability: str = "few", *, method: str = "SendMessage", **more: Any) -> httpx.Response:
        raw = self.call(DATASET, capability, {"below": below} if below is not None else {})
        return self.post(raw, self.leaf_for(raw, capability, method), method=method, **more)

    def leaf_for(self, raw: bytes, capability: str = "few", method: str = "SendMessage") -> str:
        return self.grant(self.scope(DATASET, capability), Operation(method, call_hash=sha256_hex(raw)))

    def post(self, raw: bytes, grant: str | None, *, method: str = "SendMessage", **more: Any) -> httpx.Response:
        timeout, extension = more.pop("timeout", 30), more.pop("extension", True)
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message(raw), **more}}
        return httpx.post(self.url + "/", json=body, headers=self.headers(grant, extension=extension), timeout=timeout)

    def raw(self, body: bytes) -> httpx.Response:
        headers = self.headers() | {"Content-Type": "application/json"}
        return httpx.post(self.url + "/", content=body, headers=headers, timeout=30)

    def tool(self, method: str, params: dict[str, Any], grant: str | None) -> httpx.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientCapabilities": {},
            "traceparent": f"00-{'e' * 32}-{'e' * 16}-01",
        }
        body = canonical_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
        named = {"Mcp-Name": str(params["name"])} if "name" in params else {}
        headers = {"Accept": "application/json", "MCP-Protocol-Version": PROTOCOL, "Mcp-Method": method} | named
        typed = {"Content-Type": "application/json"} | self.mcp_headers(grant)
        return httpx.post(self.url + mcp_path(DATASET), content=body, headers=headers | typed, timeout=30)


@dataclass
class Kinds:
    """Each request is asked once, by ``go``."""

    world: TracedWorld
    asked: list[Asked] = field(default_factory=list)
    spans: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        agent = self.world.agent
        self.client = Sender(agent.settings, agent.url, principal="engineer")
        self.client.sent = self.world.sent
        self._next()

    def _next(self) -> None:
        said = TraceContext(new_trace_id(), new_span_id(), True)
        self.spans[said.trace_id] = said.span_id
        self.client.trace_id = said.trace_id
        self.client.beside = {
            "traceparent": said.traceparent,
            "tracestate": f"vendor={MARKER}",
            "baggage": f"question={MARKER}",
            "User-Agent": MARKER,
        }

    def go(
        self, name: str, ask: Callable[[], httpx.Response], *, believed: bool = True, again: bool = False
    ) -> httpx.Response:
        """Ask in a new trace; ``again`` in the one before, of whose grant it is."""
        if not again:
            self._next()
        response = ask()
        trace_id = self.client.trace_id if believed else None
        self.asked.append(Asked(name, self.client.trace_id, trace_id, response.status_code, response.text))
        return response

    def everything(self) -> None:
        self.calls()
        self.that_break()
        self.large()
        self.about_tasks()
        self.unreadable()
        self.doors()
        self.asks()

    def calls(self) -> None:
        client = self.client
        for name in ("miss", "hit"):
            self.go(name, lambda: client.few(30))
        for name in ("restricted miss", "restricted hit"):
            self.go(name, lambda: client.few(30, "secret"))
        self.go("argument missing", lambda: client.few(None))
        self.go("argument invalid", lambda: client.few(MARKER))
        self.go("stream", lambda: client.few(31, method="SendStreamingMessage"))
        self.go("negotiation", self._negotiation)
        raw = client.call(DATASET, "few", {"below": 32})
        self.go("no grant", lambda: client.post(raw, None))
        self.go("no extension", lambda: client.post(raw, client.leaf_for(raw), extension=False))
        self.go("edited grant", lambda: client.post(raw, client.leaf_for(raw)[:-4] + "AAAA"))
        self.go("another call", lambda: client.post(client.call(DATASET, "few", {"below": 33}), client.leaf_for(raw)))
        self.go(
            "another capability", lambda: client.post(client.call(DATASET, "x", {"y": MARKER}), client.leaf_for(raw))
        )
        grants: list[str] = []
        self.go("first use", lambda: client.post(raw, grants.append(client.leaf_for(raw)) or grants[0]))  # type: ignore[func-returns-value]
        self.go("replay", lambda: client.post(raw, grants[0]), again=True)

    def _negotiation(self) -> httpx.Response:
        client = self.client
        grant = client.grant(client.scope(DATASET, "few"), Operation("SendMessage", negotiate=True))
        spoken = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": WORDS}]}
        return client.rpc("SendMessage", {"message": spoken}, client.headers(grant))

    def that_break(self) -> None:
        service = self.world.agent.lifecycle.service
        engine, world = service.world.datasets[DATASET].engine, service.world

        async def fail(_: Any) -> None:
            raise RuntimeError(MARKER)

        async def wait(_: Any) -> None:
            await asyncio.sleep(30)

        class Away:
            def version(self) -> str:
                return world.policy_version

            async def evaluate(self, _: Any) -> Any:
                raise RuntimeError(MARKER)

        undo = tap(engine, before=fail)
        self.go("fault", lambda: self.client.few(34))
        undo()
        service.world = replace(world, evaluator=Away())  # type: ignore[arg-type]
        self.go("indeterminate", lambda: self.client.few(35))
        service.world = world
        undo = tap(engine, before=wait)
        self.go("caller who leaves", self._leaving)
        undo()

    def _leaving(self) -> httpx.Response:
        try:
            return self.client.few(36, timeout=0.3)
        except httpx.TimeoutException:
            return httpx.Response(499)

    def large(self) -> None:
        client, wanted = self.client, {"configuration": {"acceptedOutputModes": [ARROW_MEDIA_TYPE]}}
        task = self.go("large result", lambda: client.few(4_000, "list", **wanted)).json()["result"]["task"]["id"]
        self.go("fetch", lambda: client.fetch(task))
        self.go("fetch of nothing", lambda: client.fetch("task-" + "0" * 32))

    def about_tasks(self) -> None:
        client = self.client
        self.go("task", lambda: client.rpc("GetTask", {"id": MARKER}, client.headers()))
        self.go("tasks", lambda: client.rpc("ListTasks", {}, client.headers()))
        self.go("cancel", lambda: client.rpc("CancelTask", {"id": MARKER}, client.headers()))
        self.go("subscription", lambda: client.rpc("SubscribeToTask", {"id": MARKER}, client.headers()))
        self.go("extended card", lambda: client.rpc("GetExtendedAgentCard", {}, client.headers()))
        self.go("discovery", self._discovery)

    def _discovery(self) -> httpx.Response:
        return self.client.rpc(
            "GetExtendedAgentCard", {}, self.client.headers(self.client.discover_grant(self.client.principal))
        )

    def unreadable(self) -> None:
        client = self.client
        self.go("unknown method", lambda: client.rpc(f"Say{MARKER}", {"x": MARKER}, client.headers()))
        self.go("no JSON", lambda: client.raw(b'{"' + MARKER.encode()))
        self.go("no such path", lambda: httpx.get(f"{client.url}/{MARKER}?q={MARKER}", headers=client.headers()))
        self.go("oversize", lambda: client.raw(MARKER.encode() * 5_000))

    def doors(self) -> None:
        client, arguments = self.client, {"below": 37}

        def tool(name: str, given: dict[str, Any], *, granted: bool = True) -> httpx.Response:
            grant = client.tool_grant("few", arguments, dataset=DATASET) if granted else None
            return client.tool("tools/call", {"name": name, "arguments": given}, grant)

        self.go("tool call", lambda: tool("few_readings", arguments))
        self.go("tool call without a grant", lambda: tool("few_readings", {"below": MARKER}, granted=False))
        self.go("unknown tool", lambda: tool("none-such", {"below": MARKER}))
        self.go("tools", lambda: client.tool("tools/list", {}, None))
        known, bad = {"Authorization": f"Bearer {ADMIN}"}, {"Authorization": f"Bearer {MARKER}.{MARKER}.x"}
        self.go("admin", lambda: self._get("/admin/cache/keys", known), believed=False)
        self.go("admin without token", lambda: self._get(f"/admin/cache/keys?dataset={MARKER}", {}), believed=False)
        self.go("bad token", lambda: self._get("/tasks", bad), believed=False)
        self.go("no token", lambda: self._get(f"/tasks?q={MARKER}", {}), believed=False)

    def _get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        return httpx.get(self.client.url + path, headers=headers | self.client.beside, timeout=30)

    def asks(self) -> None:
        """By the root agent."""
        self.go("ask: question", lambda: self._ask({"question": "few readings below 38"}))
        self.go("ask: words nobody reads", lambda: self._ask({"question": MARKER}))
        self.go("ask: call", lambda: self._few(38))
        self.go("ask: tool", lambda: self._few(39, via="mcp"))
        self.go("ask: refused here", lambda: self._few(40, who="u-auditor"))
        self.go("ask: stopped there", lambda: self._few(MARKER))
        self.go("ask: restricted", lambda: self._few(41, capability="secret"))
        large = self.go("ask: large", lambda: self._few(4_000, capability="list", media_type=ARROW_MEDIA_TYPE)).json()
        result = large["result"]["result_id"]
        self.go("ask: fetch", lambda: self._root("GET", f"/results/{result}"), again=True)
        self.go("ask: no JSON", lambda: self._root("POST", "/ask", content=MARKER))
        self.go("ask: oversize", lambda: self._root("POST", "/ask", content=MARKER * 5_000))
        bad = f"{MARKER}.{MARKER}.x"
        self.go("ask: bad token", lambda: self._root("POST", "/ask", token=bad, content=MARKER), believed=False)
        self.go("ask: no such path", lambda: self._root("GET", f"/{MARKER}?q={MARKER}"), believed=False)

    def _few(self, below: Any, *, capability: str = "few", who: str = "u-engineer", **form: Any) -> httpx.Response:
        call = {"dataset": DATASET, "capability": capability, "arguments": {"below": below}}
        return self._ask({**call, **form}, who=who)

    def _ask(self, body: dict[str, Any], *, who: str = "u-engineer") -> httpx.Response:
        return self._root("POST", "/ask", token=self.world.person(who), json=body)

    def _root(self, verb: str, path: str, *, token: str | None = None, **given: Any) -> httpx.Response:
        named = {"Authorization": f"Bearer {token or self.world.person()}"} | self.client.beside
        return httpx.request(verb, self.world.root_url + path, headers=named, timeout=60, **given)
