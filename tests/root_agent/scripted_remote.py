"""A dataset agent that says what a test scripts: a real a2a-sdk server on a loopback port.

It verifies nothing on its own. It records what arrived, and answers with what the script makes
of it; signing helpers build honest cards, so that a test spoils exactly one thing. One server
serves all tests, one after another, from a thread of its own; scripts run in the test's loop.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import (
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    Message,
    Part,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.extension import DECISION_KEY, EXTENSION_URI, PROVENANCE_MEDIA_TYPE
from contract.signing import PublicKey
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import load_registry

AGENT_ID = "urn:dataset-agent:remote"


class TestSigner:
    """An Ed25519 key in memory."""

    __test__ = False

    def __init__(self) -> None:
        self.private = Ed25519PrivateKey.generate()

    @property
    def public_key(self) -> PublicKey:
        return PublicKey(self.private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message)


@dataclass
class Arrived:
    """One message as the server saw it."""

    message: Message
    headers: dict[str, str]

    @property
    def call(self) -> bytes:
        return bytes(self.message.parts[0].raw)


# The descriptors are kept, so that no other gets the identity of one of them.
_CARDS: dict[tuple[str, PublicKey, tuple[int, ...]], tuple[list[DatasetDescriptor], AgentCard]] = {}
Script = Callable[[Arrived], Awaitable[Task | Message]]


@dataclass
class ScriptedRemote:
    """``card`` and ``extended`` are served as they are; ``script`` answers messages."""

    signer: TestSigner
    descriptors: list[DatasetDescriptor]
    url: str = ""
    script: Script | None = None
    card: AgentCard | None = None
    extended: AgentCard | None = None
    arrived: list[Arrived] = field(default_factory=list)
    card_requests: int = 0
    raw_reply: Callable[[Request], Awaitable[Response]] | None = None
    raw_card: Response | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def publish(self, *, restricted: list[DatasetDescriptor] | None = None) -> None:
        """Sign and serve honest cards; ``restricted`` descriptors are on the extended card only."""
        self.card = self._signed(self.descriptors)
        self.extended = self._signed(self.descriptors + (restricted or []))

    def _signed(self, descriptors: list[DatasetDescriptor]) -> AgentCard:
        """A copy of the honest card of these very descriptors, signed once for all tests."""
        place = self.url, self.signer.public_key, tuple(map(id, descriptors))
        if place not in _CARDS:
            _CARDS[place] = descriptors, signed(self.unsigned(descriptors), self.signer)
        return AgentCard.FromString(_CARDS[place][1].SerializeToString())

    def unsigned(self, descriptors: list[DatasetDescriptor], *, agent_id: str = AGENT_ID) -> AgentCard:
        card = AgentCard(
            name="dataset agent",
            description="Answers governed questions.",
            version="0.1.0",
            default_input_modes=["application/json"],
            default_output_modes=["application/json"],
        )
        card.supported_interfaces.append(
            AgentInterface(url=f"{self.url}/", protocol_binding="JSONRPC", protocol_version="1.0")
        )
        card.capabilities.extended_agent_card = True
        params = {"agent_id": agent_id, "descriptors": [item.to_json() for item in descriptors]}
        card.capabilities.extensions.append(
            AgentExtension(uri=EXTENSION_URI, required=True, params=ParseDict(params, Struct()))
        )
        card.skills.append(AgentSkill(id="ask", name="ask", description="ask a dataset", tags=["dataset"]))
        return card


def signed(card: AgentCard, signer: TestSigner, **header: Any) -> AgentCard:
    protected = {"alg": "EdDSA", "kid": signer.public_key.thumbprint, "typ": "JOSE"} | header
    return create_agent_card_signer(signer.private, protected)(card)


class _Handler(DefaultRequestHandler):
    def __init__(self, server: AgentServer) -> None:
        super().__init__(agent_executor=_NoExecutor(), task_store=InMemoryTaskStore(), agent_card=AgentCard())
        self._server = server

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        remote = self._server.remote
        arrived = Arrived(params.message, dict(context.state["headers"]))
        remote.arrived.append(arrived)
        if remote.script is None or remote.loop is None:
            raise RuntimeError("the test scripted no answer")
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(_awaited(remote.script, arrived), remote.loop)
        )

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> AgentCard:
        remote = self._server.remote
        remote.card_requests += 1
        return remote.extended or remote.card or AgentCard()


async def _awaited(script: Script, arrived: Arrived) -> Task | Message:
    return await script(arrived)


class _NoExecutor(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        raise RuntimeError("not used")

    async def cancel(self, context: Any, event_queue: Any) -> None:
        raise RuntimeError("not used")


class AgentServer:
    """The server of all tests. ``remote`` is who answers; ``signer`` is every honest remote's key."""

    def __init__(self) -> None:
        self.signer = TestSigner()
        self.remote = ScriptedRemote(self.signer, [])
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._server = uvicorn.Server(uvicorn.Config(self._app(), log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self._serve)

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def serve(self, descriptors: list[DatasetDescriptor]) -> ScriptedRemote:
        """A new remote with honest cards, in place of the one before; its scripts run in this event loop."""
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.remote = ScriptedRemote(self.signer, descriptors, url, loop=asyncio.get_running_loop())
        self.remote.publish()
        return self.remote

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def _app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/agent-card.json")
        async def card() -> Response:
            return self.remote.raw_card or JSONResponse(MessageToDict(self.remote.card))

        @app.middleware("http")
        async def intercept(request: Request, call_next: Any) -> Response:
            if request.method == "POST" and self.remote.raw_reply is not None:
                return await self.remote.raw_reply(request)
            return await call_next(request)

        app.routes.extend(create_jsonrpc_routes(_Handler(self), "/", context_builder=DefaultServerCallContextBuilder()))
        return app


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[int]:
    """The port of an application that is served on loopback, in this event loop."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        running = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            while not server.started:
                await asyncio.sleep(0.005)
            yield sock.getsockname()[1]
        finally:
            server.should_exit = True
            await running


def completed(body: bytes, envelope: dict[str, Any], **metadata: Any) -> Task:
    """A completed task in the extension's form."""
    task = Task(id="task-1", context_id="ctx-1", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
    task.metadata.CopyFrom(ParseDict({DECISION_KEY: granted_decision()} | metadata, Struct()))
    sealed = json.dumps(envelope).encode()
    task.artifacts.extend(
        [
            Artifact(artifact_id="a1", name="result", parts=[Part(raw=body, media_type="application/json")]),
            Artifact(artifact_id="a2", name="provenance", parts=[Part(raw=sealed, media_type=PROVENANCE_MEDIA_TYPE)]),
        ]
    )
    return task


def rejected(reason: str, verdict: str, policy_id: str | None = None) -> Task:
    """A rejected task with a decision in its metadata."""
    task = Task(id="task-2", context_id="ctx-2", status=TaskStatus(state=TaskState.TASK_STATE_REJECTED))
    decision = {
        "verdict": verdict,
        "reason": reason,
        "policy_id": policy_id,
        "policy_version": "2026.1",
        "decision_id": "dec-remote",
        "rationale": "the remote says so",
    }
    task.metadata.CopyFrom(ParseDict({DECISION_KEY: decision}, Struct()))
    return task


def granted_decision() -> dict[str, Any]:
    return {
        "verdict": "GRANTED",
        "reason": "PRINCIPAL_AUTHORIZED",
        "policy_id": "BPD-DATA-014",
        "policy_version": "2026.1",
        "decision_id": "dec-remote",
        "rationale": "policy BPD-DATA-014 permits it",
    }


@cache
def shipped(dataset: str) -> DatasetDescriptor:
    """A descriptor of the shipped world, as its agent publishes it."""
    root = Path(__file__).resolve().parents[2] / "datasets"
    return load_registry(root).datasets[dataset].published()
