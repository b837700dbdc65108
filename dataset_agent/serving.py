"""``serve``, ``root``, ``policy serve`` and ``reload``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.console import EXIT_FAULT, AsJson, err, print_json, say
from dataset_agent.policy_server import create_policy_app
from remote_agent.serve import bind_port, server_settings
from remote_agent.serve import serve as serve_remote

policy_app = typer.Typer(help="A policy server with OPA's data API.", no_args_is_help=True)
Host = Annotated[str | None, typer.Option(help="Bind address; default 127.0.0.1.")]


def _settings(host: str | None) -> Settings:
    return Settings() if host is None else Settings(host=host)


def _announce(what: str) -> Any:
    return lambda address: err.print(f"{what} is ready at {address}", markup=False)


def serve(port: Annotated[int, typer.Option(min=0, max=65535)] = 8801, host: Host = None) -> None:
    """Serve the dataset agent. SIGTERM drains; SIGHUP (or `reload`) re-reads datasets and policies."""
    asyncio.run(serve_remote(_settings(host), port=port, ready=_announce("the dataset agent")))


def root(port: Annotated[int, typer.Option(min=0, max=65535)] = 8800, host: Host = None) -> None:
    """Serve the root agent to applications: POST /ask with a person's bearer token."""
    from root_agent.serve import serve as serve_root

    asyncio.run(serve_root(_settings(host), port=port, ready=_announce("the root agent")))


@policy_app.callback()
def policy_group() -> None:
    """A policy server with OPA's data API."""


@policy_app.command("serve")
def policy_serve(port: Annotated[int, typer.Option(min=0, max=65535)] = 8802, host: Host = None) -> None:
    """Serve the policies of the datasets folder; point DATASET_AGENT_POLICY_URL at it."""
    settings = _settings(host)
    app = create_policy_app(settings.datasets)
    listener = bind_port(settings.host, port)
    _announce("the policy server")(f"http://{settings.host}:{listener.getsockname()[1]}")
    server = uvicorn.Server(uvicorn.Config(app, **server_settings()))
    asyncio.run(server.serve(sockets=[listener]))


def reload(
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the new version is served.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Longest wait in seconds.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Make the running dataset agents of this home re-read datasets, principals, policies and trust."""
    running = _running(Settings())
    if not running:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.reload.nothing",
            "no dataset agent is running on this DATASET_AGENT_HOME: start one with dataset-agent serve",
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
    for path in sorted((settings.home / "run").glob("serve-*.json")):
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
