"""A running task as the events of a stream: working, how far it is, and what became of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from a2a.types.a2a_pb2 import Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.extension import PROGRESS_KEY
from contract.progress import Progress

INTERVAL_S: Final = 1.0
"""At most one event in so many seconds says that a task still works."""

Event = Task | TaskArtifactUpdateEvent | TaskStatusUpdateEvent


def working(task_id: str, context_id: str, progress: Progress | None = None) -> Task:
    """The task while it runs: that it does, and how far it is where that is known."""
    task = Task(id=task_id, context_id=context_id, status=TaskStatus(state=TaskState.TASK_STATE_WORKING))
    percent = None if progress is None else progress.percent()
    if percent is not None:
        task.metadata.CopyFrom(_told(percent))
    return task


async def updates(
    first: Task, progress: Progress, done: Callable[[float], Awaitable[bool]]
) -> AsyncIterator[TaskStatusUpdateEvent]:
    """One event whenever the percentage has grown, until ``done(seconds)``: ``first`` was sent before."""
    told = first.metadata[PROGRESS_KEY]["percent"] if PROGRESS_KEY in first.metadata else None
    while not await done(INTERVAL_S):
        percent = progress.percent()
        if percent is not None and percent != told:
            told = percent
            yield TaskStatusUpdateEvent(
                task_id=first.id, context_id=first.context_id, status=first.status, metadata=_told(percent)
            )


def ending(task: Task) -> list[Event]:
    """What became of it: its artifacts, then its last status with the metadata."""
    place: dict[str, Any] = {"task_id": task.id, "context_id": task.context_id}
    artifacts = [TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True, **place) for artifact in task.artifacts]
    return [*artifacts, TaskStatusUpdateEvent(status=task.status, metadata=task.metadata, **place)]


def _told(percent: int) -> Struct:
    return ParseDict({PROGRESS_KEY: {"percent": percent}}, Struct())
