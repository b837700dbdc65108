"""Tasks that wait for an approval, for the door: found again where this process does not remember them, and taken back.

A task lives in the memory of one process, an approval in a store. After a restart the approval still names
its task, so the call is sent in that task as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

from a2a.types.a2a_pb2 import Task, TaskState
from a2a.utils.errors import InternalError
from google.protobuf.json_format import MessageToDict

from approvals.approval import Approval, State
from approvals.book import Kept
from contract.extension import REVIEW_KEY
from contract.verdict import NotGranted
from remote_agent.owners import Owner
from remote_agent.review import review_json
from remote_agent.service import Service
from remote_agent.siblings import Siblings
from remote_agent.tasks import TaskMemory
from remote_agent.wire import task_of

T = TypeVar("T")


class Recall(Protocol):
    """What the door asks of tasks that wait for a person. Both raise ``NotGranted`` where the store does not answer."""

    async def find(self, owner: Owner, task_id: str, *, live: bool = False) -> Task | None:
        """The owner's task as it waits; ``live``: only while it waits and may still be resumed."""
        ...

    async def withdraw(self, owner: Owner, task_id: str) -> None:
        """Take back what the owner's task waits for, if it waits."""
        ...


class NoRecall:
    """Of an agent that keeps no approvals."""

    async def find(self, owner: Owner, task_id: str, *, live: bool = False) -> Task | None:
        return None

    async def withdraw(self, owner: Owner, task_id: str) -> None:
        return


class RecallApprovals:
    """``Recall`` over the approvals of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def find(self, owner: Owner, task_id: str, *, live: bool = False) -> Task | None:
        kept = await self._owned(owner, task_id)
        if kept is None or (live and not _is_live(kept.approval, self._service.clock())):
            return None
        return _waiting(kept.approval)

    async def withdraw(self, owner: Owner, task_id: str) -> None:
        kept = await self._owned(owner, task_id)
        if kept is not None:
            await self._service.approvals.withdraw(kept)

    async def _owned(self, owner: Owner, task_id: str) -> Kept | None:
        kept = await self._service.approvals.of_task(task_id)
        return kept if kept is not None and _owner_of(kept.approval) == owner else None


class WaitingTasks:
    """Tasks that wait for a person, as the door remembers them; a store that is away is the protocol's own error."""

    def __init__(self, recall: Recall, tasks: TaskMemory, siblings: Siblings) -> None:
        self._recall = recall
        self._tasks = tasks
        self._siblings = siblings

    async def recall(self, owner: Owner, task_id: str, *, live: bool) -> None:
        """Remember a task again where this process does not know it (any more)."""
        self._siblings.route(task_id)
        if self._tasks.find(owner, task_id) is None:
            found = await _told(self._recall.find(owner, task_id, live=live))
            if found is not None:
                self._tasks.remember(owner, found)

    async def withdraw(self, owner: Owner, task_id: str) -> None:
        await _told(self._recall.withdraw(owner, task_id))


async def _told(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except NotGranted:
        raise InternalError(message=InternalError.message) from None


def review_of(task: Task) -> Mapping[str, Any] | None:
    """What a remembered task waits for; ``None`` where it waits for no person."""
    if task.status.state != TaskState.TASK_STATE_AUTH_REQUIRED:
        return None
    told = MessageToDict(task.metadata).get(REVIEW_KEY)
    return told if isinstance(told, dict) else None


def _owner_of(approval: Approval) -> Owner:
    """As ``remote_agent.owners.owner_of`` names the owner of a task under a grant."""
    who = approval.requester
    return who.client, who.issuer, who.tenant, who.subject


def _is_live(approval: Approval, now: float) -> bool:
    return approval.state in (State.PENDING, State.APPROVED) and not approval.is_over(now)


def _waiting(approval: Approval) -> Task:
    told = {
        "id": approval.task_id,
        "contextId": approval.context_id,
        "status": {"state": "TASK_STATE_AUTH_REQUIRED"},
        "metadata": {REVIEW_KEY: review_json(approval)},
    }
    return task_of(told)
