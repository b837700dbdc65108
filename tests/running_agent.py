"""A dataset agent on real loopback HTTP, and somebody who asks it with grants of their own making."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import DECISION_KEY, EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.principal import Principal
from contract.scope import Scope
from contract.settings import Settings
from contract.signing import Signer
from contract.verdict import Decision, Reason
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from dataset_agent.process import bind_port, server_settings
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.keys import init_keys
from grants.mint import mint_root
from grants.trust import Trust, load_trust
from remote_agent.app import create_app
from remote_agent.lifecycle import Lifecycle
from remote_agent.siblings import Siblings
from remote_agent.siblings_door import HandOver
from tests.database_files import keep, lend

COMPARE = {"batch_a": "B001", "batch_b": "B002"}


@dataclass
class RunningAgent:
    """A served dataset agent. ``lifecycle`` is in the server's thread; read it, do not call it."""

    settings: Settings
    url: str
    lifecycle: Lifecycle
    loop: asyncio.AbstractEventLoop

    def run(self, coroutine: Any) -> Any:
        """Run something on the server's own loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def rows(self) -> list[Any]:
        """The ledger's entries so far."""
        return list(self.lifecycle.service.ledger.rows())


Wrap = Callable[[Any, Lifecycle], Any]


@contextmanager
def running_agent(
    settings: Settings, *, port: int = 0, wrap: Wrap | None = None, siblings: Siblings | None = None
) -> Iterator[RunningAgent]:
    """Serve until the block ends. Keys must exist. ``wrap`` makes what is served of the ASGI application.

    As one of several workers, by their ``siblings``, it serves on its private socket too.
    """
    lend(settings)
    listener = bind_port("127.0.0.1", port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    started: list[RunningAgent] = []
    failed: list[BaseException] = []
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        try:
            lifecycle = await Lifecycle.open(settings, public_url=url, siblings=siblings)
        except BaseException as error:
            listener.close()
            failed.append(error)
            ready.set()
            return
        app: Any = create_app(lifecycle)
        sockets = [listener]
        if siblings is not None:
            app = HandOver(app, siblings)
            sockets.append(siblings.listener())
        server = uvicorn.Server(uvicorn.Config(wrap(app, lifecycle) if wrap else app, **server_settings()))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        started.append(RunningAgent(settings, url, lifecycle, asyncio.get_running_loop()))
        serving = asyncio.create_task(server.serve(sockets=sockets))
        while not server.started:
            await asyncio.sleep(0.005)
        ready.set()
        await asyncio.to_thread(stop.wait)
        server.should_exit = True
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    ready.wait(60)
    if failed:
        raise failed[0]
    try:
        keep(settings)
        yield started[0]
    finally:
        stop.set()
        thread.join(30)


@dataclass
class Asker:
    """A root agent in miniature: mints as the issuer, derives as the holder, sends as the client.

    ``trace_id`` is what its grants name; empty, each names another one.
    """

    settings: Settings
    url: str
    principal: str = "process_engineer"
    trace_id: str = ""
    issuer: Signer = field(init=False)
    holder: Signer = field(init=False)
    trust: Trust = field(init=False)

    def __post_init__(self) -> None:
        self.issuer = FileSigner.load(self.settings.issuer_dir / "grant.jwk")
        self.holder = FileSigner.load(self.settings.root_dir / "holder.jwk")
        self.trust = load_trust(self.settings.trust_path)

    def _principal(self) -> Principal:
        found = load_directory(self.settings.datasets / "principals.yaml").named(self.principal)
        if found is None:
            raise LookupError(f"the test world lacks {self.principal}")
        return found

    def call(self, dataset: str, capability: str, arguments: dict[str, Any]) -> bytes:
        return json.dumps({"dataset": dataset, "capability": capability, "arguments": arguments}).encode()

    def scope(self, dataset: str, *capabilities: str, **changes: Any) -> Scope:
        descriptor = load_registry(self.settings.datasets).datasets[dataset]
        members: dict[str, Any] = {
            "dataset": dataset,
            "dataset_version": descriptor.version,
            "revision": descriptor.revision,
            "actions": frozenset(capabilities),
            "locations": frozenset({self.settings.agent_id}),
            "max_sensitivity": self._principal().clearance,
        }
        return Scope(**(members | changes))

    def root_token(self, scope: Scope, *, now: float | None = None, signer: Signer | None = None) -> str:
        principal = self._principal()
        holder = self.trust.agent(self.settings.root_id)
        if holder is None:
            raise LookupError("the test world lacks the root agent")
        return mint_root(
            signer or self.issuer,
            issuer_url=self.settings.issuer_url,
            decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "the root admits it"),
            principal=principal,
            holder=holder,
            scope=scope,
            intent=next(iter(sorted(scope.actions))),
            rctx={"trace_id": self.trace_id or sha256_hex(new_id("trace").encode())[:32]},
            now=time.time() if now is None else now,
        )

    def grant(
        self,
        scope: Scope,
        operation: Operation,
        *,
        now: float | None = None,
        audience: str | None = None,
        signer: Signer | None = None,
    ) -> str:
        """The header value for one operation."""
        at = time.time() if now is None else now
        receiver = self.trust.agent(audience or self.settings.agent_id)
        if receiver is None:
            raise LookupError("the audience is not pinned")
        root = self.root_token(scope, now=at, signer=signer)
        return header_value(derive((root,), self.holder, audience=receiver, operation=operation, now=at))

    def headers(
        self, grant: str | None = None, *, extension: bool = True, authenticated: bool = True
    ) -> dict[str, str]:
        headers = {"A2A-Version": "1.0"}
        if authenticated:
            assertion = client_assertion(
                self.holder, agent_id=self.settings.root_id, audience=self.settings.agent_id, now=time.time()
            )
            headers["Authorization"] = f"Bearer {assertion}"
        if extension:
            headers["A2A-Extensions"] = EXTENSION_URI
        if grant is not None:
            headers[GRANT_HEADER] = grant
        return headers

    def send(self, call: bytes, headers: dict[str, str], *, method: str = "SendMessage") -> httpx.Response:
        return self.rpc(method, {"message": message(call)}, headers)

    def rpc(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(self.url + "/", json=body, headers=headers, timeout=120)

    def ask(self, dataset: str, capability: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """One governed call, and the task that came back."""
        call = self.call(dataset, capability, arguments)
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        grant = self.grant(self.scope(dataset, capability), operation)
        return task_of(self.send(call, self.headers(grant)))


def message(call: bytes) -> dict[str, Any]:
    part = {"raw": base64.b64encode(call).decode(), "mediaType": "application/json"}
    return {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [part]}


def task_of(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    if "result" not in body:
        raise AssertionError(f"no task: {body}")
    return dict(body["result"]["task"])


def decision_of(task: dict[str, Any]) -> dict[str, Any]:
    return dict(task["metadata"][DECISION_KEY])


def result_of(task: dict[str, Any]) -> dict[str, Any]:
    """The result document of a completed task."""
    artifact = next(item for item in task["artifacts"] if item["name"] == "result")
    return dict(json.loads(base64.b64decode(artifact["parts"][0]["raw"])))


def agent_home(folder: Path, **settings: Any) -> Settings:
    """Settings with a fresh home and fresh keys."""
    made = Settings(home=folder, **settings)
    init_keys(made)
    return made
