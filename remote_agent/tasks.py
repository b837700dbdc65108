"""What is remembered of tasks: status, decision and envelope, for their owner, never rows."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState, TaskStatus

from remote_agent.door import without_rows
from remote_agent.running import Owner

MAX_AGENT_BYTES: Final = 64 * 2**20
"""For each client agent, over all its tasks, as they are stored."""

MAX_TASK_BYTES: Final = 512 * 1024
"""For one task. The largest envelope that is ever sealed fits; of a larger task only its status is kept."""

_OVERHEAD: Final = 1_024
"""What a stored task costs beside its bytes, roughly."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A task as bytes, and what it is looked for by. ``changed`` is nanoseconds since 1970."""

    owner: Owner
    context_id: str
    state: TaskState
    changed: int
    data: bytes = field(repr=False)

    @classmethod
    def of(cls, owner: Owner, task: Task) -> _Kept:
        kept = without_rows(task)
        if kept.ByteSize() > MAX_TASK_BYTES:
            status = TaskStatus(state=task.status.state)
            if task.status.HasField("timestamp"):
                status.timestamp.CopyFrom(task.status.timestamp)
            kept = Task(id=task.id, context_id=task.context_id, status=status)
        return cls(
            owner, task.context_id, task.status.state, task.status.timestamp.ToNanoseconds(), kept.SerializeToString()
        )

    @property
    def size(self) -> int:
        return len(self.data) + _OVERHEAD

    def task(self) -> Task:
        task = Task()
        task.ParseFromString(self.data)
        return task


@dataclass(slots=True)
class _Agent:
    """The tasks of one client agent by their ids, the oldest first, and their size together."""

    tasks: OrderedDict[str, _Kept] = field(default_factory=OrderedDict)
    size: int = 0

    def put(self, task_id: str, kept: _Kept) -> None:
        self.drop(self.tasks.pop(task_id, None))
        self.tasks[task_id] = kept
        self.size += kept.size

    def drop(self, kept: _Kept | None) -> None:
        self.size -= kept.size if kept else 0


class TaskMemory:
    """Tasks by owner, at most ``limit`` and ``max_bytes`` for each agent; its oldest is forgotten first.

    Owned by (agent, issuer, tenant, subject), or by the agent alone where no person was
    verified. A task of another owner does not exist for the asker.
    """

    def __init__(self, limit: int, *, max_bytes: int = MAX_AGENT_BYTES) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._agents: dict[str, _Agent] = {}

    def remember(self, owner: Owner, task: Task) -> None:
        agent = self._agents.setdefault(owner[0], _Agent())
        agent.put(task.id, _Kept.of(owner, task))
        while len(agent.tasks) > self._limit or agent.size > self._max_bytes:
            agent.drop(agent.tasks.popitem(last=False)[1])

    def find(self, owner: Owner, task_id: str) -> Task | None:
        held = self._tasks(owner).get(task_id)
        return held.task() if held is not None and held.owner == owner else None

    def page(self, owner: Owner, params: ListTasksRequest) -> ListTasksResponse:
        """Newest first; ``page_token`` is the id of the last task already seen."""
        mine = [
            (task_id, held)
            for task_id, held in reversed(self._tasks(owner).items())
            if held.owner == owner and _asked_for(held, params)
        ]
        ids = [task_id for task_id, _ in mine]
        start = ids.index(params.page_token) + 1 if params.page_token in ids else 0
        size = min(max(params.page_size, 1), 100) if params.HasField("page_size") else 50
        page = [held.task() for _, held in mine[start : start + size]]
        more = start + size < len(mine)
        return ListTasksResponse(
            tasks=page, next_page_token=page[-1].id if more else "", page_size=size, total_size=len(mine)
        )

    def _tasks(self, owner: Owner) -> OrderedDict[str, _Kept]:
        agent = self._agents.get(owner[0])
        return OrderedDict() if agent is None else agent.tasks


def _asked_for(held: _Kept, params: ListTasksRequest) -> bool:
    if params.context_id and held.context_id != params.context_id:
        return False
    if params.status and held.state != params.status:
        return False
    if params.HasField("status_timestamp_after"):
        return bool(held.changed >= params.status_timestamp_after.ToNanoseconds())
    return True
