"""A bare a2a-sdk echo agent: the floor that the protocol itself costs. Usage: echo_sdk.py PORT."""

from __future__ import annotations

import sys

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import Part, Task, TaskState, TaskStatus
from a2a.utils.errors import TaskNotCancelableError
from fastapi import FastAPI

from benchmarks.serving import echo_app, echo_card, run


class Echo(AgentExecutor):
    """Submits a task, returns the message's part as its artifact and completes."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        if message is None or context.task_id is None or context.context_id is None:
            raise ValueError("an echo needs a message")
        await event_queue.enqueue_event(
            Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            )
        )
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.add_artifact([Part(raw=message.parts[0].raw, media_type="application/json")], name="echo")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise TaskNotCancelableError(message="an echo is over before it could be cancelled")


def create_app(port: int) -> FastAPI:
    card = echo_card(port)
    return echo_app(DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card), card)


if __name__ == "__main__":
    run(create_app(int(sys.argv[1])), int(sys.argv[1]))
