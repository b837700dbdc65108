"""A served world in which one capability needs review, somebody who asks and somebody who may approve."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from approvals.approval import Approval, Ruling
from contract.extension import REVIEW_KEY
from contract.ids import new_id
from contract.settings import SHIPPED_DATASETS
from tests.remote_agent.long_world import Client
from tests.running_agent import RunningAgent, agent_home, running_agent

DATASET, CAPABILITY, POLICY = "purification-batches", "compare_batches", "BPD-DATA-014"
WAITS, DONE, REJECTED = "TASK_STATE_AUTH_REQUIRED", "TASK_STATE_COMPLETED", "TASK_STATE_REJECTED"


def reviewed_datasets(folder: Path, capability: str = CAPABILITY) -> Path:
    """The shipped world with a review on one capability; ``clinical_reviewer`` may approve."""
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, folder / "datasets"))
    descriptor = datasets / DATASET / "descriptor.yaml"
    text = descriptor.read_text(encoding="utf-8")
    name = f"  - name: {capability}\n"
    assert text.count(name) == 1
    descriptor.write_text(text.replace(name, name + "    requires_review: true\n"), encoding="utf-8")
    people = datasets / "principals.yaml"
    text = people.read_text(encoding="utf-8")
    held = "      clinical-private: [aggregate, search]\n      purification-batches: [search]\n"
    assert text.count(held) == 1
    people.write_text(text.replace(held, held.replace("[search]", "[approve, search]")), encoding="utf-8")
    return datasets


@contextmanager
def reviewed_agent(folder: Path, **settings: Any) -> Iterator[RunningAgent]:
    """Such an agent, with keys of its own; files are not watched."""
    datasets = reviewed_datasets(folder)
    home = agent_home(folder / "home", datasets=datasets, watch_interval=0, **settings)
    with running_agent(home) as served:
        yield served


def approval_of(agent: RunningAgent, task: dict[str, Any]) -> Approval:
    """The approval that a task waits for, as the store has it."""
    kept = agent.run(agent.lifecycle.service.approvals.find(task["metadata"][REVIEW_KEY]["approval_id"]))
    found: Approval = kept.approval
    return found


def decide(agent: RunningAgent, task: dict[str, Any], *, yes: bool = True, arguments: Any = None) -> Ruling:
    """Decide in the store, as an approver's command does after it was permitted."""
    book, now = agent.lifecycle.service.approvals, agent.lifecycle.service.clock()
    ruling = Ruling(
        issuer="https://issuer.dataset-agent.example",
        subject="u-clin-01",
        decision_id=new_id("dec"),
        policy_id=POLICY,
        policy_version="1",
        at=now,
    )
    kept = agent.run(book.find(task["metadata"][REVIEW_KEY]["approval_id"]))
    if yes:
        agent.run(book.approve(kept, ruling, arguments or kept.approval.asked.arguments, now))
    else:
        agent.run(book.deny(kept, ruling, now))
    return ruling


def state_of(task: dict[str, Any]) -> str:
    return str(task["status"]["state"])


def ask(client: Client, **arguments: str) -> dict[str, Any]:
    """A call that needs review, sent for the first time."""
    return client.send(client.call(arguments))


def again(client: Client, task: dict[str, Any], **arguments: str) -> dict[str, Any]:
    """The same in its task, under a fresh leaf."""
    return client.send(client.call(arguments), task=task)


@contextmanager
def asked_after(agent: RunningAgent, name: str, happens: Callable[[], bool]) -> Iterator[threading.Event]:
    """The store of approvals answers one question of a name only when something else has happened; the event says that it was put."""
    book, put = agent.lifecycle.service.approvals, threading.Event()
    inner = getattr(book, name)

    async def late(asked: Any) -> Any:
        if put.is_set():
            return await inner(asked)
        put.set()
        while not happens():
            await asyncio.sleep(0.005)
        return await inner(asked)

    setattr(book, name, late)
    try:
        yield put
    finally:
        delattr(book, name)
