"""``serve``, ``root``, ``policy serve`` and ``reload``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.console import EXIT_FAULT, AsJson, err, print_json, say
from dataset_agent.policy_server import PolicyFile, create_policy_app
from dataset_agent.process import bind_port, serve_app
from remote_agent.app import create_app
from remote_agent.lifecycle import Lifecycle
from root_agent.app import build_app as build_root_app
from root_agent.opening import load_world as load_root_world
from root_agent.opening import open_service
from root_agent.service import Service as RootService

policy_app = typer.Typer(help="A policy server with OPA's data API.", no_args_is_help=True)
Host = Annotated[str | None, typer.Option(help="Bind address; default 127.0.0.1.")]


def serve(port: Annotated[int, typer.Option(min=0, max=65535)] = 8801, host: Host = None) -> None:
    """Serve the dataset agent. SIGTERM drains; SIGHUP (or `reload`) re-reads datasets and policies."""
    asyncio.run(_serve(_settings(host), port))


def root(port: Annotated[int, typer.Option(min=0, max=65535)] = 8800, host: Host = None) -> None:
    """Serve the root agent to applications: POST /ask with a person's bearer token."""
    asyncio.run(_root(_settings(host), port))


async def _serve(settings: Settings, port: int) -> None:
    with closing(bind_port(settings.host, port)) as listener:
        bound = listener.getsockname()[1]
        address = settings.public_url or f"http://{settings.host}:{bound}"
        lifecycle = await Lifecycle.open(settings, public_url=address)
        await serve_app(
            create_app(lifecycle),
            listener,
            run_file=settings.home / "run" / f"serve-{bound}.json",
            status=lifecycle.status,
            reload=lifecycle.reload,
            ready=_announce("the dataset agent", address),
        )


async def _root(settings: Settings, port: int) -> None:
    with closing(bind_port(settings.host, port)) as listener:
        bound = listener.getsockname()[1]
        service = open_service(settings)
        worlds = RootWorld(settings, service)
        await serve_app(
            build_root_app(service, max_body_bytes=settings.max_body_bytes),
            listener,
            run_file=settings.home / "run" / f"root-{bound}.json",
            status=worlds.status,
            reload=worlds.reload,
            ready=_announce("the root agent", f"http://{settings.host}:{bound}"),
        )


class RootWorld:
    """The root's principals and policies, re-read on request; broken ones are not taken over."""

    def __init__(self, settings: Settings, service: RootService) -> None:
        self._settings = settings
        self._service = service
        self._generation = 1
        self._fault: str | None = None

    def status(self) -> dict[str, Any]:
        return {"generation": self._generation, "fault": self._fault, "invalid": {}}

    async def reload(self) -> None:
        try:
            world = load_root_world(self._settings)
        except DatasetAgentError as error:
            self._fault = error.message
            return
        self._service.world, self._fault = world, None
        self._generation += 1
        for agent, _ in self._service.agents:
            self._service.cards.forget(agent.id)


def _settings(host: str | None) -> Settings:
    return Settings() if host is None else Settings(host=host)


def _announce(what: str, address: str) -> Callable[[], None]:
    return lambda: err.print(f"{what} is ready at {address}", markup=False)


@policy_app.callback()
def policy_group() -> None:
    """A policy server with OPA's data API."""


@policy_app.command("serve")
def policy_serve(port: Annotated[int, typer.Option(min=0, max=65535)] = 8802, host: Host = None) -> None:
    """Serve the policies of the datasets folder; point DATASET_AGENT_POLICY_URL at it."""
    settings = _settings(host)
    policies = PolicyFile(settings.datasets)
    with closing(bind_port(settings.host, port)) as listener:
        bound = listener.getsockname()[1]
        asyncio.run(
            serve_app(
                create_policy_app(policies),
                listener,
                run_file=settings.home / "run" / f"policy-{bound}.json",
                status=policies.status,
                reload=policies.reload,
                ready=_announce("the policy server", f"http://{settings.host}:{bound}"),
            )
        )


def reload(
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the new version is served.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Longest wait in seconds.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Make what this home serves re-read datasets, principals, policies and trust."""
    running = _running(Settings())
    if not running:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.reload.nothing",
            "nothing is served from this DATASET_AGENT_HOME: start it with dataset-agent serve",
        )
    for state in running.values():
        os.kill(state["pid"], signal.SIGHUP)
    if wait:
        running = _awaited(running, time.monotonic() + timeout)
    faults = [state["fault"] for state in running.values() if state.get("fault")]
    if as_json:
        print_json({"agents": list(running.values()), "ok": not faults})
    for path, state in running.items():
        invalid = "".join(f"; not served: {name} ({why})" for name, why in state.get("invalid", {}).items())
        if not as_json:
            say(f"{path.stem}: generation {state['generation']}{invalid}")
    if faults:
        err.print(f"error: the old version stays in force: {faults[0]}", markup=False)
        raise typer.Exit(EXIT_FAULT)


def _running(settings: Settings) -> dict[Path, dict[str, Any]]:
    """Run files of live processes; what a killed process left behind is removed."""
    found: dict[Path, dict[str, Any]] = {}
    for path in sorted((settings.home / "run").glob("*.json")):
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            os.kill(state["pid"], 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError):
            continue
        else:
            found[path] = state
    return found


def _awaited(before: dict[Path, dict[str, Any]], deadline: float) -> dict[Path, dict[str, Any]]:
    while True:
        now = {path: json.loads(path.read_text(encoding="utf-8")) for path in before if path.exists()}
        if all(state["attempt"] > before[path]["attempt"] for path, state in now.items()):
            return now
        if time.monotonic() > deadline:
            raise DatasetAgentError(
                Component.COMMAND, Category.TIMEOUT, "command.reload.timeout", "the reload did not finish in time"
            )
        time.sleep(0.05)
