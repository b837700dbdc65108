"""``reload``: what is served re-reads its files; requests under way keep the version they began with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.policy import load_policies
from control_plane.policy_seen import told_apart
from dataset_agent.configuration import load_settings
from dataset_agent.console import AsJson, fail, note, print_json, progress, say
from dataset_agent.run_files import Running, running

_PAUSE_S: Final = 0.05


def reload(
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the new version is served.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Longest wait in seconds.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Make what this home serves re-read datasets, principals, policies and trust."""
    settings = load_settings()
    served = running(settings)
    if not served:
        raise _fault(
            Category.NOT_FOUND, "nothing", f"nothing is served from {settings.home}: start it with dataset-agent serve"
        )
    asked = time.monotonic()
    for process in served:
        _ask(process)
    if wait:
        with progress("reloading"):
            served = _awaited(served, asked, asked + timeout)
    problems = _problems(served) if wait else []
    if wait and (told := _same_version(settings)):
        note(told)
    if as_json:
        print_json({"agents": [_public(process) for process in served], "waited": wait, "ok": not problems})
    for process in () if as_json else served:
        _tell(process, wait)
    if problems:
        raise fail("; ".join(problems))


def _tell(process: Running, waited: bool) -> None:
    if not waited:
        say(f"{process}: asked to reload")
        return
    say(f"{process}: generation {process.state['generation']}")
    if "workers" in process.state:  # only an agent of several has any
        say(f"  workers: {process.state['workers_serving']} of {process.state['workers']} serve")
    names = process.state.get("datasets")  # only a dataset agent has any
    if names is not None:
        say(f"  serves: {', '.join(names) or 'no dataset'}")
    for name, why in process.state["invalid"].items():
        say(f"  not served: {name} ({why})")
    for name, why in process.state.get("outdated", {}).items():
        say(f"  served as before: {name} ({why})")


def _problems(served: Sequence[Running]) -> list[str]:
    """A reload that was not taken over, datasets that nobody is served since, and those served as they were before."""
    faults = [str(process.state["fault"]) for process in served if process.state["fault"]]
    problems = [f"the old version stays in force: {faults[0]}"] if faults else []
    for member, said in (("invalid", "not served"), ("outdated", "served as before")):
        if names := sorted({name for process in served for name in process.state.get(member, {})}):
            problems.append(f"{said}: {', '.join(names)}")
    return problems


def _same_version(settings: Settings) -> str | None:
    """Whether the policies that are in force now were edited and their version was not."""
    try:
        return told_apart(load_policies(settings.datasets / "policies"), settings.datasets, settings.home)
    except DatasetAgentError:  # who serves has told it
        return None


def _ask(process: Running) -> None:
    try:
        os.kill(process.pid, signal.SIGHUP)
    except ProcessLookupError:
        raise _ended(process) from None
    except PermissionError:
        raise _fault(
            Category.FORBIDDEN, "owner", f"{process} (process {process.pid}) is another user's: run this as that user"
        ) from None


def _awaited(before: Sequence[Running], asked: float, deadline: float) -> list[Running]:
    """Every process after a reload that began since it was asked. Raises TIMEOUT, or where one ended.

    A reload that was under way before may have read files before they were edited: it is not waited for.
    """
    done: list[Running] = []
    for process in before:
        while (now := process.again()) is not None and now.began < asked:
            if time.monotonic() > deadline:
                raise _fault(
                    Category.TIMEOUT, "timeout", f"{process} did not finish its reload in time: try a longer --timeout"
                )
            time.sleep(_PAUSE_S)
        if now is None:
            raise _ended(process)
        done.append(now)
    return done


def _public(process: Running) -> dict[str, Any]:
    return {"kind": process.kind, **process.state}


def _ended(process: Running) -> DatasetAgentError:
    return _fault(Category.UNAVAILABLE, "ended", f"{process} ended meanwhile: start it again and look at its log")


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, category, f"command.reload.{code}", message)
