"""``demo``: the whole story on this machine, over loopback HTTP, with keys and state of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import typer

from cache import inspect
from cache.opening import open_store
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from contract.verdict import Reason, Verdict
from dataset_agent.asking import answer_to, result_table
from dataset_agent.console import AsJson, err, print_json, say, table
from dataset_agent.edited_grant import send_edited_grant
from dataset_agent.evidence_commands import Side, ledger_key, ledger_path
from evidence.verify import LedgerReport, verify_ledger
from grants.keys import init_keys
from root_agent.asking import Answer
from root_agent.cards import CardBook
from root_agent.opening import close_service, open_service

QUESTION = "Compare the recovery of batches B001 and B002"
PARAPHRASE = "How does the recovery of batch B001 compare with B002?"
START_S = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the story: what was tried, what came of it, and whether that is what was meant to."""

    title: str
    outcome: str
    ok: bool


def demo(
    keep: bool = typer.Option(False, "--keep", help="Keep the demo's home folder and say where it is."),
    as_json: AsJson = False,
) -> None:
    """Run the main job end to end: discover, admit, delegate, verify, reuse, refuse, prove. Exit 0 if all of it held."""
    home = Path(tempfile.mkdtemp(prefix="dataset-agent-demo-"))
    story = Story(as_json)
    try:
        with _services(home) as (settings, policy):
            asyncio.run(_tell(story, settings, policy))
    finally:
        if keep:
            err.print(f"the demo's home: {home}", markup=False)
        else:
            shutil.rmtree(home, ignore_errors=True)
    story.end()


class Story:
    """Prints the steps as they happen and remembers whether each was as it should be."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._steps: list[Step] = []

    def tell(self, title: str, outcome: str, ok: bool) -> None:
        self._steps.append(Step(title, outcome, ok))
        if not self._as_json:
            say(f"{len(self._steps):>2}. {'ok ' if ok else 'NOT OK'} {title}\n       {outcome}")

    def show(self, render: Callable[[], None]) -> None:
        if not self._as_json:
            render()

    def end(self) -> None:
        good = all(step.ok for step in self._steps)
        if self._as_json:
            print_json(
                {"ok": good, "steps": [{"title": s.title, "outcome": s.outcome, "ok": s.ok} for s in self._steps]}
            )
        else:
            say("Everything held." if good else "Something did NOT hold.")
        if not good:
            raise typer.Exit(1)


async def _tell(story: Story, settings: Settings, policy: subprocess.Popen[bytes]) -> None:
    before = {entry.key for entry in await _entries(settings)}
    await _discover(story, settings)
    first = await _ask(story, settings, "process_engineer", QUESTION, Verdict.GRANTED, cache="MISS")
    if first.document is not None:
        document = first.document
        story.show(lambda: result_table(document, QUESTION))
    await _ask(
        story, settings, "process_engineer", QUESTION, Verdict.GRANTED, cache="HIT", again="the same question again"
    )
    await _ask(story, settings, "process_engineer", PARAPHRASE, Verdict.GRANTED, cache="HIT", again="a paraphrase")
    await _ask(story, settings, "analyst", QUESTION, Verdict.GRANTED, cache="MISS", again="another partition")
    await _ask(story, settings, "external_auditor", QUESTION, Verdict.REFUSED, reason=Reason.INSUFFICIENT_PRIVILEGE)
    await _edited(story, settings)
    _stop(policy)
    await _ask(
        story,
        settings,
        "process_engineer",
        QUESTION,
        Verdict.INDETERMINATE,
        reason=Reason.EVALUATOR_UNAVAILABLE,
        again="the policy server is stopped",
    )
    await _cache_keys(story, settings, before)
    _ledger(story, settings)


async def _discover(story: Story, settings: Settings) -> None:
    service = open_service(settings)
    try:
        agent, url = service.agents[0]
        if not isinstance(service.cards, CardBook):
            raise TypeError("the demo opens its own card book")
        verified = await service.cards.card(agent, url, service.clock())
        public = sorted(offer.dataset for offer in verified.offers if offer.public is not None)
        outcome = f"{verified.card.name} at {url}: card signature verified; it publishes {', '.join(public)}"
        story.tell("The root agent fetches the dataset agent's card", outcome, bool(public))
    finally:
        await close_service(service)


async def _ask(
    story: Story,
    settings: Settings,
    principal: str,
    question: str,
    verdict: Verdict,
    *,
    cache: str | None = None,
    reason: Reason | None = None,
    again: str = "",
) -> Answer:
    answer, shown = await answer_to(settings, principal, {"question": question})
    ok = answer.verdict is verdict and _as_meant(answer, shown, cache, reason)
    story.tell(f"{principal} asks: {question}" + (f" ({again})" if again else ""), _outcome(answer, shown), ok)
    return answer


def _as_meant(answer: Answer, shown: dict[str, Any], cache: str | None, reason: Reason | None) -> bool:
    if answer.verdict is Verdict.GRANTED:
        return shown["cache"]["outcome"] == cache and shown["provenance"]["verified"] is True
    nothing_ran = shown["result"] is None and not shown["tool_calls"] and not shown["a2a_calls"]
    return nothing_ran and answer.decision.reason is reason and "execute" not in shown["visited_nodes"]


def _outcome(answer: Answer, shown: dict[str, Any]) -> str:
    decision = answer.decision
    if answer.document is not None:
        return (
            f"{decision.verdict} by {decision.policy_id}, cache {shown['cache']['outcome']}, "
            f"{answer.document.row_count} rows, provenance verified"
        )
    named = f" by {decision.policy_id}" if decision.policy_id else ", no policy named"
    return f"{decision.verdict} {decision.reason}{named}; nothing was called"


async def _edited(story: Story, settings: Settings) -> None:
    decision = await send_edited_grant(settings)
    ok = decision["verdict"] == "REFUSED" and decision["reason"] == Reason.GRANT_SIGNATURE_INVALID.value
    story.tell("A grant is edited on the way", f"{decision['verdict']} {decision['reason']}", ok)


async def _entries(settings: Settings) -> list[inspect.EntryView]:
    store = open_store(settings)
    try:
        return await inspect.entries(store, now=time.time())
    finally:
        await store.close()


async def _cache_keys(story: Story, settings: Settings, before: set[str]) -> None:
    found = [entry for entry in await _entries(settings) if entry.key not in before]
    story.tell(
        "An operator lists the cache keys", f"{len(found)} entries, no scope, argument or row in sight", len(found) == 2
    )
    names = ("dataset", "dataset_version", "capability", "principal_class", "policy_version")
    story.show(
        lambda: table(
            "Cache keys", ("key", *names), [(e.key, *(e.dimensions.get(name, "") for name in names)) for e in found]
        )
    )


def _ledger(story: Story, settings: Settings) -> None:
    key = ledger_key(settings, Side.REMOTE)
    path = ledger_path(settings, Side.REMOTE)
    report = verify_ledger(path, key)
    story.tell("An auditor verifies the dataset agent's ledger", f"whole: {report.size} rows", report.ok)
    edited = _edited_copy(path, settings.home / "copy.sqlite")
    damaged = verify_ledger(edited, key)
    story.tell("Row 1 of a copy is edited", _damage(damaged), not damaged.ok and damaged.bad_row == 1)


def _damage(report: LedgerReport) -> str:
    return "not noticed" if report.ok else f"row {report.bad_row} is named: {report.problem}"


def _edited_copy(path: Path, copy: Path) -> Path:
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        target.execute("UPDATE entries SET reason = 'INSUFFICIENT_PRIVILEGE' WHERE idx = 1")
    return copy


@contextmanager
def _services(home: Path) -> Iterator[tuple[Settings, subprocess.Popen[bytes]]]:
    """A policy server and a dataset agent as processes of their own; stopped by process id."""
    with err.status("making keys and starting a policy server and a dataset agent"):
        policy_port, agent_port = _free_port(), _free_port()
        settings = Settings(
            home=home,
            url=f"http://127.0.0.1:{agent_port}",
            policy_url=f"http://127.0.0.1:{policy_port}",
            public_url=None,
            model=None,
        )
        init_keys(settings)
        policy = _start(settings, "policy", "serve", "--port", str(policy_port))
        agent = _start(settings, "serve", "--port", str(agent_port))
        try:
            _await(f"{settings.policy_url}/health", policy)
            _await(f"{settings.url}/readyz", agent)
        except BaseException:
            _stop(agent)
            _stop(policy)
            raise
    try:
        yield settings, policy
    finally:
        _stop(agent)
        _stop(policy)


def _start(settings: Settings, *command: str) -> subprocess.Popen[bytes]:
    kept = ("DATASET_AGENT_STATE_URL", "DATASET_AGENT_CACHE_URL")
    inherited = {k: v for k, v in os.environ.items() if k in kept or not k.startswith("DATASET_AGENT_")}
    env = inherited | {
        "DATASET_AGENT_HOME": str(settings.home),
        "DATASET_AGENT_POLICY_URL": str(settings.policy_url),
        "DATASET_AGENT_DATASETS": str(settings.datasets),
        "DATASET_AGENT_LOG_LEVEL": "ERROR",
    }
    program = "from dataset_agent.cli import main; main()"
    log = (settings.home / "services.log").open("ab")
    return subprocess.Popen([sys.executable, "-c", program, *command], env=env, stdout=log, stderr=log)  # noqa: S603 - our own command


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise DatasetAgentError(
        Component.COMMAND,
        Category.UNAVAILABLE,
        "command.demo.start",
        f"a service of the demo did not start at {url}: run with --keep and read services.log in its home",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
