"""What is remembered of tasks: status, decision and envelope, for their owner, never rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState, TaskStatus

from contract.canonical import json_to_keep
from remote_agent.door import without_rows
from remote_agent.owners import Owner
from remote_agent.wire import TaskJson, task_of

MAX_AGENT_BYTES: Final = 64 * 2**20
"""For each client agent, over all its tasks, as they are stored."""

MAX_TASK_BYTES: Final = 512 * 1024
"""For one task. The largest envelope that is ever sealed fits; of a larger task only its status is kept."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_OVERHEAD: Final = 1_024
"""What a stored task costs beside its bytes, roughly."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A task as bytes, and what it is looked for by: ``state`` and ``changed`` are as A2A's JSON says them."""

    owner: Owner
    context_id: str
    state: str
    changed: str
    data: bytes = field(repr=False)
    read: Callable[[bytes], Task]

    @classmethod
    def told(cls, owner: Owner, told: TaskJson) -> _Kept:
        """An answer without its rows: as JSON, which is read when somebody asks for the task."""
        status, data = told["status"], json_to_keep(without_rows(told))
        if len(data) > MAX_TASK_BYTES:
            short = {name: status[name] for name in ("state", "timestamp")}
            data = json_to_keep({"id": told["id"], "contextId": told["contextId"], "status": short})
        return cls(owner, told["contextId"], status["state"], status["timestamp"], data, _of_json)

    @classmethod
    def of(cls, owner: Owner, task: Task) -> _Kept:
        """A task that has no rows: it runs, it failed, or it was remembered before."""
        kept = task
        if task.ByteSize() > MAX_TASK_BYTES:
            kept = Task(id=task.id, context_id=task.context_id, status=TaskStatus(state=task.status.state))
            if task.status.HasField("timestamp"):
                kept.status.timestamp.CopyFrom(task.status.timestamp)
        state, changed = TaskState.Name(task.status.state), task.status.timestamp.ToJsonString()
        return cls(owner, task.context_id, state, changed, kept.SerializeToString(), Task.FromString)

    @property
    def size(self) -> int:
        return len(self.data) + _OVERHEAD

    def task(self) -> Task:
        return self.read(self.data)


def _of_json(data: bytes) -> Task:
    return task_of(orjson.loads(data))


@dataclass(slots=True)
class _Own:
    """The ids of one owner's tasks, the oldest first, and the size of these together."""

    ids: OrderedDict[str, None] = field(default_factory=OrderedDict)
    size: int = 0


@dataclass(slots=True)
class _Agent:
    """The tasks of one client agent by their ids, the oldest first, and their size together."""

    tasks: OrderedDict[str, _Kept] = field(default_factory=OrderedDict)
    size: int = 0
    owned: dict[Owner, _Own] = field(default_factory=dict)

    def put(self, task_id: str, kept: _Kept) -> None:
        self.drop(task_id)
        self.tasks[task_id] = kept
        own = self.owned.setdefault(kept.owner, _Own())
        own.ids[task_id] = None
        own.size += kept.size
        self.size += kept.size

    def drop(self, task_id: str) -> None:
        kept = self.tasks.pop(task_id, None)
        if kept is None:
            return
        own = self.owned[kept.owner]
        del own.ids[task_id]
        own.size -= kept.size
        self.size -= kept.size
        if not own.ids:
            del self.owned[kept.owner]

    def next_to_go(self, newest: Owner, *, by_size: bool) -> str:
        """The oldest task of all, or of who has put the ``newest``, where these have more than who has the oldest."""
        oldest = next(iter(self.tasks))
        theirs, mine = self.owned[self.tasks[oldest].owner], self.owned[newest]
        more = mine.size > theirs.size if by_size else len(mine.ids) > len(theirs.ids)
        return next(iter(mine.ids)) if more and len(mine.ids) > 1 else oldest


class TaskMemory:
    """Tasks by owner, at most ``limit`` and ``max_bytes`` for each agent; its oldest is forgotten first.

    But whoever has many makes their own be forgotten, and nobody's who has fewer.

    Owned by (agent, issuer, tenant, subject), or by the agent alone where no person was
    verified. A task of another owner does not exist for the asker.
    """

    def __init__(self, limit: int, *, max_bytes: int = MAX_AGENT_BYTES) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._agents: dict[str, _Agent] = {}

    def remember(self, owner: Owner, task: Task) -> None:
        """A task that has no rows."""
        self._put(owner, task.id, _Kept.of(owner, task))

    def remember_told(self, owner: Owner, told: TaskJson) -> None:
        """What may be stored of an answer."""
        self._put(owner, told["id"], _Kept.told(owner, told))

    def _put(self, owner: Owner, task_id: str, kept: _Kept) -> None:
        agent = self._agents.setdefault(owner[0], _Agent())
        agent.put(task_id, kept)
        while len(agent.tasks) > self._limit or agent.size > self._max_bytes:
            agent.drop(agent.next_to_go(owner, by_size=agent.size > self._max_bytes))

    def find(self, owner: Owner, task_id: str) -> Task | None:
        held = self._tasks(owner).get(task_id)
        return held.task() if held is not None and held.owner == owner else None

    def page(self, owner: Owner, params: ListTasksRequest) -> ListTasksResponse:
        """Newest first; ``page_token`` is the id of the last task already seen."""
        after = params.status_timestamp_after.ToNanoseconds() if params.HasField("status_timestamp_after") else None
        mine = [
            (task_id, held)
            for task_id, held in reversed(self._tasks(owner).items())
            if held.owner == owner and _asked_for(held, params, after)
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


def _asked_for(held: _Kept, params: ListTasksRequest, after: int | None) -> bool:
    if params.context_id and held.context_id != params.context_id:
        return False
    if params.status and TaskState.Value(held.state) != params.status:
        return False
    return after is None or _nanoseconds(held.changed) >= after


def _nanoseconds(changed: str) -> int:
    """Since 1970, of an instant as A2A's JSON says it, to the microsecond: protobuf's own reader takes ten times as long."""
    return (datetime.fromisoformat(changed) - _EPOCH) // _MICROSECOND * 1_000
