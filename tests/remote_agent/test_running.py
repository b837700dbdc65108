"""Whatever stops a message, and whenever: its path is entered once, and its outcome stands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, UnsupportedOperationError

from contract.extension import EXTENSION_URI
from contract.verdict import Decision, Reason
from evidence.checkpoint import Receipt
from remote_agent.caller import Caller, CallerUser
from remote_agent.cancelling import past_cancelling
from remote_agent.door import tell
from remote_agent.handler import GovernedRequestHandler
from remote_agent.outcome import Answer, Request
from remote_agent.owners import Owner
from remote_agent.running import Faulty, Running
from remote_agent.tasks import TaskMemory
from remote_agent.underway import Underway
from remote_agent.wire import TaskJson

GRANTED = Answer(decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "P-1", "1", "permitted"))


class Path:
    """A path that waits until it is let go, and counts how it was treated."""

    def __init__(self) -> None:
        self.entered = self.cancelled = 0
        self.go = asyncio.Event()

    async def __call__(self, *_: Request | Underway) -> Answer:
        self.entered += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return GRANTED


async def no_card(*_: Any) -> Any:
    raise AssertionError("no card is asked for")


def handler(path: Path) -> GovernedRequestHandler:
    return GovernedRequestHandler(path, no_card, no_card, TaskMemory(10))


def running(path: Any) -> Running:
    return Running(("urn:a",), "t", "c", path, lambda answer: tell(answer, "t", "c"))


def context() -> ServerCallContext:
    return ServerCallContext(user=CallerUser(Caller("urn:a")), requested_extensions={EXTENSION_URI})


def message(**members: str) -> SendMessageRequest:
    part = Part(raw=b"{}", media_type="application/json")
    return SendMessageRequest(message=Message(message_id="m", role=Role.ROLE_USER, parts=[part], **members))


async def test_a_message_stopped_before_its_first_step_still_enters_its_path() -> None:
    path = Path()
    assert await running(path).end() is True
    assert (path.entered, path.cancelled) == (1, 1)


async def test_a_stream_closed_after_its_first_event_enters_its_path_and_is_stopped() -> None:
    path = Path()
    stream = handler(path).on_message_send_stream(message(), context())
    await anext(stream)
    await stream.aclose()
    assert (path.entered, path.cancelled) == (1, 1)


async def test_a_caller_who_leaves_stops_the_work_and_waits_for_its_record() -> None:
    path = Path()
    sending = asyncio.create_task(handler(path).on_message_send(message(), context()))
    await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (path.entered, path.cancelled) == (1, 1)


async def test_cancelling_a_task_is_answered_by_what_became_of_it() -> None:
    path = Path()
    served = handler(path)
    stream = served.on_message_send_stream(message(), context())
    first: Any = await anext(stream)
    canceled = await served.on_cancel_task(CancelTaskRequest(id=first.id), context())
    assert canceled is not None
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
    ended = [event async for event in stream]
    assert ended[-1].status.state == TaskState.TASK_STATE_CANCELED


async def test_a_task_that_already_has_its_outcome_cannot_be_cancelled() -> None:
    path = Path()
    served = handler(path)
    stream = served.on_message_send_stream(message(), context())
    first: Any = await anext(stream)
    path.go.set()
    await asyncio.sleep(0.01)
    with pytest.raises(TaskNotCancelableError):
        await served.on_cancel_task(CancelTaskRequest(id=first.id), context())
    assert [event async for event in stream][-1].status.state == TaskState.TASK_STATE_COMPLETED


async def test_a_task_listed_in_the_instant_of_its_end_keeps_its_outcome() -> None:
    path, listed = Path(), []

    class Listing(TaskMemory):
        def remember_told(self, owner: Owner, told: TaskJson) -> None:
            super().remember_told(owner, told)
            if told["status"]["state"] == "TASK_STATE_COMPLETED":  # who lists comes before who forgets that it ran
                listed.append(asyncio.ensure_future(served.on_list_tasks(ListTasksRequest(), context())))

    served = GovernedRequestHandler(path, no_card, no_card, Listing(10))
    path.go.set()
    ended: Any = await served.on_message_send(message(), context())
    (page,) = (await listed[0]).tasks
    found: Any = await served.on_get_task(GetTaskRequest(id=ended.id), context())
    assert {page.status.state, found.status.state} == {TaskState.TASK_STATE_COMPLETED}


async def test_two_messages_cannot_be_answered_under_one_task() -> None:
    path = Path()
    served = handler(path)
    stream = served.on_message_send_stream(message(), context())
    first: Any = await anext(stream)
    with pytest.raises(UnsupportedOperationError):
        await served.on_message_send(message(task_id=first.id), context())
    await stream.aclose()


async def test_a_fault_keeps_its_text_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: Underway) -> Answer:
        raise RuntimeError("cell zebra")

    with pytest.raises(Faulty) as fault:
        await running(broken).finish()
    assert "zebra" not in str(fault.value) + caplog.text


async def test_a_row_that_is_being_written_is_written_whoever_cancels() -> None:
    written = asyncio.Event()
    receipt: Receipt = object()  # type: ignore[assignment]

    async def write() -> Receipt:
        await asyncio.sleep(0.02)
        written.set()
        return receipt

    waiting = asyncio.create_task(past_cancelling(write()))
    for _ in range(3):
        await asyncio.sleep(0.003)
        waiting.cancel()
    assert await waiting is receipt
    assert written.is_set()
