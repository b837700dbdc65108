"""A root agent and a dataset agent on loopback whose traces are kept, and everything that they log, at DEBUG.

Every value that must stay where it belongs is marked, or is known: questions, arguments, rows, policies, tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import uvicorn
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from contract.settings import Settings
from contract.tracing import Traces
from control_plane.identity import issue_identity
from dataset_agent.process import bind_port, server_settings
from grants.key_files import FileSigner
from root_agent.app import build_app
from root_agent.opening import open_service
from telemetry.environment import Wanted
from telemetry.export import traces_to
from telemetry.logs import OWN, formatter
from tests.large_world import DATASET, MARKER, write_people, write_world
from tests.running_agent import RunningAgent, agent_home, running_agent

ADMIN: Final = "operator-" + "o" * 32
POLICY_TEXT: Final = "lark-ascending-policy"
MARKERS: Final = {MARKER, POLICY_TEXT, ADMIN, "zebra", "crossing"}
ROWS: Final = 6_000


@dataclass
class Kept:
    """The spans of all agents, and the lines that their processes would write."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    lines: list[str] = field(default_factory=list)

    def traces(self, name: str) -> Traces:
        wanted = Wanted("parentbased_always_on", 1.0)
        return traces_to(SimpleSpanProcessor(self.exporter), wanted, name, version="1")

    def by_trace(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = defaultdict(list)
        for span in self.exporter.get_finished_spans():
            found[f"{span.context.trace_id:032x}"].append(span)
        return found

    def exported(self) -> str:
        return "\n".join(span.to_json() for span in self.exporter.get_finished_spans())


def is_connected(spans: list[Any]) -> bool:
    """Whether all spans are below one: their own, or that of whoever asked."""
    ids = {span.context.span_id for span in spans}
    above = [span.parent.span_id if span.parent else None for span in spans]
    outside = [parent for parent in above if parent not in ids]
    return len(set(outside)) == 1 and len(ids) == len(spans) and outside.count(None) <= 1


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines += [formatter("json").format(record), formatter("text").format(record)]


@contextmanager
def keeping() -> Iterator[Kept]:
    """Agents that are opened inside keep their traces here. Libraries log at DEBUG too, which no process lets them."""
    kept, patch = Kept(), pytest.MonkeyPatch()
    patch.setattr("remote_agent.lifecycle.open_traces", lambda _, name, **__: kept.traces(name))
    patch.setattr("root_agent.opening.open_traces", lambda _, name, **__: kept.traces(name))
    handler, root = _Lines(kept.lines), logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in ("", *OWN)}
    root.addHandler(handler)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.removeHandler(handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        patch.undo()


@dataclass
class TracedWorld:
    agent: RunningAgent
    root_url: str
    settings: Settings
    kept: Kept
    sent: set[str] = field(default_factory=set)

    def person(self, subject: str = "u-engineer") -> str:
        signer = FileSigner.load(self.settings.issuer_dir / "identity.jwk")
        token = issue_identity(
            signer,
            issuer_url=self.settings.issuer_url,
            subject=subject,
            audience=self.settings.root_id,
            now=time.time(),
        )
        self.sent.add(token)
        return token

    def ask(self, body: dict[str, Any], **headers: str) -> httpx.Response:
        named = {"Authorization": f"Bearer {self.person()}"} | headers
        return httpx.post(self.root_url + "/ask", json=body, headers=named, timeout=60)


@contextmanager
def traced_world(folder: Path) -> Iterator[TracedWorld]:
    datasets = write_world(folder / "datasets", rows=ROWS)
    _edit(datasets)
    settings = agent_home(folder / "home", datasets=datasets, admin_token=ADMIN, max_body_bytes=60_000)
    with keeping() as kept, running_agent(settings) as agent:
        assert not agent.lifecycle.status()["invalid"], agent.lifecycle.status()["invalid"]
        with _running_root(settings.model_copy(update={"url": agent.url})) as root_url:
            yield TracedWorld(agent, root_url, settings, kept)


def _edit(datasets: Path) -> None:
    """A door for MCP, a restricted capability, a marked policy, and somebody who may ask nothing."""
    path = datasets / DATASET / "descriptor.json"
    descriptor = json.loads(path.read_text())
    descriptor["policies"] = ["T-1"]
    descriptor["endpoints"] = {"mcp": f"/mcp/{DATASET}"}
    for capability in descriptor["capabilities"]:
        capability |= {"mcp_tool_name": f"{capability['name']}_readings", "preferred": "tool"}
    few = next(one for one in descriptor["capabilities"] if one["name"] == "few")
    secret = {"name": "secret", "tool_name": "secret", "sensitivity": "restricted", "policy_id": "T-1"}
    descriptor["capabilities"].append(
        {**few, **secret, "mcp_tool_name": None, "preferred": None, "keywords": ["secret"], "examples": []}
    )
    path.write_text(json.dumps(descriptor))
    policies = datasets / "policies"
    for name in ("t.cedar", "t.cedarschema"):
        text = (policies / name).read_text().replace("list, first, few", "list, first, few, secret")
        (policies / name).write_text(text + (f"\n// {POLICY_TEXT}\n" if name == "t.cedar" else ""))
    write_people(datasets, {"engineer": ["Basel", "Visp"], "auditor": []}, entitled=("engineer",))
    people = datasets / "principals.yaml"
    people.write_text(people.read_text().replace("confidential", "restricted").replace("- few", "- secret\n    - few"))


@contextmanager
def _running_root(settings: Settings) -> Iterator[str]:
    listener = bind_port("127.0.0.1", 0)
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        app = build_app(open_service(settings), max_body_bytes=settings.max_body_bytes)
        server = uvicorn.Server(uvicorn.Config(app, **server_settings()))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.005)
        ready.set()
        await asyncio.to_thread(stop.wait)
        server.should_exit = True
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        thread.join(30)
