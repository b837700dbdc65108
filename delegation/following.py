"""A call that is followed while it runs: how far it is, told as it comes, and one task of all the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from a2a.types.a2a_pb2 import StreamResponse, Task
from google.protobuf.struct_pb2 import Struct

from contract.extension import PROGRESS_KEY
from contract.progress import Watch


@dataclass(frozen=True, slots=True)
class Follow:
    """Who is told how far a call is, and the headers with which its sender cancels it."""

    watch: Watch
    headers: Callable[[], Mapping[str, str]] = field(repr=False)


class Gathered:
    """The task of a stream, event by event. Raises ``ValueError`` for events of another task."""

    def __init__(self) -> None:
        self.task = Task()

    def take(self, event: StreamResponse) -> int | None:
        """Add an event; the percentage it tells, if any."""
        if event.HasField("task"):
            self.task.CopyFrom(event.task)
            return _percent(event.task.metadata)
        if event.HasField("artifact_update"):
            self._check(event.artifact_update.task_id)
            self.task.artifacts.append(event.artifact_update.artifact)
        elif event.HasField("status_update"):
            self._check(event.status_update.task_id)
            self.task.status.CopyFrom(event.status_update.status)
            self.task.metadata.CopyFrom(event.status_update.metadata)
            return _percent(event.status_update.metadata)
        return None

    def _check(self, task_id: str) -> None:
        if not self.task.id or task_id != self.task.id:
            raise ValueError("an event is of another task than its stream")


def _percent(metadata: Struct) -> int | None:
    """A whole number of percent; anything else that another agent says is not told."""
    told = metadata.fields.get(PROGRESS_KEY)
    value = told.struct_value.fields.get("percent") if told is not None else None
    number = value.number_value if value is not None and value.HasField("number_value") else -1.0
    return int(number) if 0 <= number <= 100 else None
