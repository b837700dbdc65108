"""A root agent as an application has it, with a clock of the application's own; and its holder's key in bad hands.

``request`` is the root agent's Python door. The others are what a holder of a grant can send besides: a leaf for
any call, whose scope is written by hand and signed with the very key that the grant names, so that nothing of this
side stands between a widened grant and its receiver.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx

from conformance.issuer import SIGNED
from contract.canonical import canonical_json
from contract.extension import DECISION_KEY, ERROR_KEY, EXTENSION_URI
from contract.mcp import MCP_DECISION, MCP_ERROR, MCP_METHOD, mcp_path
from contract.settings import Settings
from control_plane.descriptor import DatasetDescriptor
from dataset_agent.login import identity_token
from delegation.trace import new_trace_id, traceparent
from grants.key_files import FileSigner
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from root_agent.identity import RequestContext
from root_agent.opening import close_service, open_service, reload_service

T = TypeVar("T")
_WAIT_S: Final = 60.0
_MCP_VERSION: Final = "2026-07-28"
_MCP_CLIENT: Final = {
    "io.modelcontextprotocol/protocolVersion": _MCP_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Told:
    """An answer as programs get it, and whether a root token was signed for it."""

    answer: Answer
    shown: Mapping[str, Any]
    minted: bool

    @property
    def scope(self) -> dict[str, Any] | None:
        """Of the root token, in the kit's members; ``None`` where it is not to be had."""
        planned, principal = self.answer.asking.plan, self.answer.asking.principal
        if planned is None or principal is None:
            return None
        return {
            "principal_class": principal.principal_class,
            "dataset": planned.scope.dataset,
            "capabilities": sorted(planned.scope.actions),
            "max_sensitivity": planned.scope.max_sensitivity.value,
        }


@dataclass(frozen=True, slots=True)
class Replied:
    """What a dataset agent said to a call that was made by hand."""

    decision: Mapping[str, Any]
    error: Mapping[str, Any]
    has_result: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a call that was made by hand goes, and what it carries."""

    url: str
    headers: Mapping[str, str]


class Facade:
    """One root agent on an event loop of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._behind = 0.0
        self._people: dict[str, RequestContext] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._root: RootAgent = self._run(self._open())
        self._holder = FileSigner.load(settings.root_dir / "holder.jwk")

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def root(self) -> RootAgent:
        """The root agent itself, to be watched; it is asked through ``request``."""
        return self._root

    async def _open(self) -> RootAgent:
        return RootAgent(open_service(self._settings, clock=lambda: time.time() - self._behind))

    def close(self) -> None:
        self._run(self._root.close())
        self._run(close_service(self._root.service))
        self._run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def reload(self) -> None:
        self._people.clear()
        self._run(reload_service(self._settings, self._root.service))

    def request(self, principal: str, *, behind: float = 0.0, **wanted: Any) -> Told:
        """``wanted`` as ``RootAgent.ask_for`` takes it. ``behind``: by how many seconds its clock is late meanwhile."""
        person = self._person(principal)
        signed = len(SIGNED)
        self._behind = behind
        try:
            answer = self._run(self._root.ask_for(person, **wanted))
        finally:
            self._behind = 0.0
        return Told(answer, to_json(answer), len(SIGNED) > signed)

    def offered(self) -> list[DatasetDescriptor]:
        """What the dataset agent's verified card says it has for this root agent."""
        service = self._root.service
        offers = [self._run(service.cards.offers(agent, url, time.time())) for agent, url in service.agents]
        return [
            offer.descriptor for found in offers for offer in found if isinstance(offer.descriptor, DatasetDescriptor)
        ]

    def send_message(self, told: Told, call: Mapping[str, Any], scope: Mapping[str, Any]) -> Replied:
        """``call`` over A2A, under a fresh leaf of the root token of ``told`` whose scope is ``scope``."""
        body = json.dumps(dict(call)).encode()
        sent = self._sent(told, body, scope, "SendMessage")
        part = {"raw": base64.b64encode(body).decode(), "mediaType": "application/json"}
        message = {"messageId": f"msg-{secrets.token_hex(8)}", "role": "ROLE_USER", "parts": [part]}
        headers = {**sent.headers, "A2A-Version": "1.0", "A2A-Extensions": EXTENSION_URI}
        task = _post(f"{sent.url}/", "SendMessage", {"message": message}, headers).get("task", {})
        meta = task.get("metadata", {})
        return Replied(meta.get(DECISION_KEY, {}), meta.get(ERROR_KEY, {}), bool(task.get("artifacts")))

    def call_tool(self, told: Told, call: Mapping[str, Any], scope: Mapping[str, Any]) -> Replied:
        """The same at the MCP door of the call's dataset."""
        tool, dataset = call["capability"], call["dataset"]
        sent = self._sent(told, canonical_json(dict(call)), scope, MCP_METHOD)
        headers = {**sent.headers, "Accept": "application/json", "MCP-Protocol-Version": _MCP_VERSION}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        params = {"name": tool, "arguments": call["arguments"], "_meta": _MCP_CLIENT}
        result = _post(f"{sent.url}{mcp_path(dataset)}", "tools/call", params, headers)
        meta = result.get("_meta", {})
        return Replied(meta.get(MCP_DECISION, {}), meta.get(MCP_ERROR) or {}, result.get("isError") is False)

    def _sent(self, told: Told, body: bytes, scope: Mapping[str, Any], method: str) -> Sent:
        service, planned = self._root.service, told.answer.asking.plan
        if planned is None:
            raise LookupError("there is no grant to delegate")
        leaf = self.leaf(planned.chain[-1], scope, method=method, call_hash=hashlib.sha256(body).hexdigest())
        headers = service.headers(planned.agent_id, ",".join((*planned.chain, leaf)), traceparent(new_trace_id()))
        return Sent({agent.id: url for agent, url in service.agents}[planned.agent_id], headers)

    def leaf(self, parent: str, scope: Mapping[str, Any], **operation: str) -> str:
        """A child of the token ``parent`` as docs/extension.md has it, but for the scope, which is whatever is asked."""
        above = _payload(parent)
        own = self._holder.public_key
        receiver = self._root.service.trust.agent(self._settings.agent_id)
        if receiver is None:
            raise LookupError("the dataset agent is not pinned")
        now = int(time.time())
        detail = {**above["authorization_details"][0], "identifier": scope["dataset"]}
        detail |= {"actions": sorted(scope["capabilities"]), "max_sensitivity": scope["max_sensitivity"]}
        claims = {
            "iss": own.thumbprint_uri,
            "sub": above["sub"],
            "aud": receiver.id,
            "act": {"sub": above["aud"]},
            "iat": now,
            "nbf": now,
            "exp": min(now + 60, above["exp"]),
            "jti": secrets.token_urlsafe(16),
            "txn": above["txn"],
            "cnf": {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": _b64(receiver.key.raw)}},
            "del_depth": above["del_depth"] + 1,
            "del_max_depth": above["del_max_depth"],
            "par_hash": _b64(hashlib.sha256(parent.rpartition(".")[0].encode()).digest()),
            "authorization_details": [detail],
            "op": dict(operation),
            "tctx": above["tctx"],
            "rctx": {"trace_id": above["rctx"]["trace_id"]},
        }
        header = json.dumps({"alg": "Ed25519", "typ": _header(parent)["typ"]})
        signed = f"{_b64(header.encode())}.{_b64(json.dumps(claims).encode())}"
        return f"{signed}.{_b64(self._holder.sign(signed.encode()))}"

    def _person(self, principal: str) -> RequestContext:
        """Who a development token of that name stands for, judged by the root agent on its own clock."""
        known = self._people.get(principal)
        if known is None:
            token = identity_token(self._settings, principal)
            known = self._people[principal] = self._run(self._root.service.person(token))
        return known

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)


def _post(url: str, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """The result of a JSON-RPC request. Raises ``LookupError`` for a reply that has none."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
    reply = httpx.post(url, json=request, headers=dict(headers), timeout=_WAIT_S, trust_env=False)
    told = reply.json() if reply.status_code == httpx.codes.OK else {}
    if not isinstance(told.get("result"), dict):
        raise LookupError(f"{method} was answered with HTTP {reply.status_code} and no result")
    return dict(told["result"])


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _part(token: str, number: int) -> dict[str, Any]:
    part = token.split(".")[number]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def _header(token: str) -> dict[str, Any]:
    return _part(token, 0)


def _payload(token: str) -> dict[str, Any]:
    return _part(token, 1)
