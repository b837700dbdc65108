"""What is remembered of tasks: status, decision and envelope, for their owner, never rows."""

from __future__ import annotations

from collections import OrderedDict

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task

from remote_agent.door import without_rows
from remote_agent.running import Owner


class TaskMemory:
    """Tasks by owner, at most ``limit`` for each agent; its oldest is forgotten first.

    Owned by (agent, issuer, tenant, subject), or by the agent alone where no person was
    verified. A task of another owner does not exist for the asker.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._agents: dict[str, OrderedDict[str, tuple[Owner, Task]]] = {}

    def remember(self, owner: Owner, task: Task) -> None:
        tasks = self._agents.setdefault(owner[0], OrderedDict())
        tasks[task.id] = (owner, without_rows(task))
        tasks.move_to_end(task.id)
        while len(tasks) > self._limit:
            tasks.popitem(last=False)

    def find(self, owner: Owner, task_id: str) -> Task | None:
        held = self._tasks(owner).get(task_id)
        if held is None or held[0] != owner:
            return None
        task = Task()
        task.CopyFrom(held[1])
        return task

    def page(self, owner: Owner, params: ListTasksRequest) -> ListTasksResponse:
        """Newest first; ``page_token`` is the id of the last task already seen."""
        mine = [
            task for held, task in reversed(self._tasks(owner).values()) if held == owner and _asked_for(task, params)
        ]
        ids = [task.id for task in mine]
        start = ids.index(params.page_token) + 1 if params.page_token in ids else 0
        size = min(max(params.page_size, 1), 100) if params.HasField("page_size") else 50
        page = mine[start : start + size]
        more = start + size < len(mine)
        return ListTasksResponse(
            tasks=page, next_page_token=page[-1].id if more else "", page_size=size, total_size=len(mine)
        )

    def _tasks(self, owner: Owner) -> OrderedDict[str, tuple[Owner, Task]]:
        return self._agents.get(owner[0], OrderedDict())


def _asked_for(task: Task, params: ListTasksRequest) -> bool:
    if params.context_id and task.context_id != params.context_id:
        return False
    if params.status and task.status.state != params.status:
        return False
    if params.HasField("status_timestamp_after"):
        return bool(task.status.timestamp.ToNanoseconds() >= params.status_timestamp_after.ToNanoseconds())
    return True
