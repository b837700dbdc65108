"""A call that is followed: its events are bounded like any reply, and become one task; percentages are numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import StreamResponse, TaskState
from google.protobuf.json_format import ParseDict

from contract.extension import PROGRESS_KEY
from delegation.following import Gathered
from delegation.http import MAX_EVENTS, BoundedTransport, Bounds, ReplyTooLarge
from tests.delegation.test_http_bounds import URL, Body, Saying

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}
ASKED = {"Accept": "text/event-stream"}


async def lines(body: Body, bounds: Bounds, headers: dict[str, str] | None = None) -> AsyncIterator[bytes]:
    transport = BoundedTransport(Saying(body, headers=headers or EVENTS), bounds)
    async with (
        httpx.AsyncClient(transport=transport) as client,
        client.stream("POST", URL, headers=ASKED) as reply,
    ):
        async for line in reply.aiter_lines():
            yield line.encode()


async def all_lines(body: Body, bounds: Bounds, headers: dict[str, str] | None = None) -> list[bytes]:
    return [line async for line in lines(body, bounds, headers)]


async def test_events_are_handed_on_while_they_come_and_in_whole_lines() -> None:
    body = Body(b'data: {"a"', b': 1}\n\ndata: {"b": 2}\n', b"\n: ping\n\n", b'data: {"c": 3}\n\n')
    reading = lines(body, Bounds(200, 5))
    assert await anext(reading) == b'data: {"a": 1}'
    assert body.taken == 2
    rest = [line async for line in reading]
    assert [line for line in rest if line] == [b'data: {"b": 2}', b": ping", b'data: {"c": 3}']
    assert body.closed


@pytest.mark.parametrize(
    "hostile",
    [
        b"data: [" + b",".join([b"1"] * 50) + b"]\n\n",
        b"data: " + b"[" * 40 + b"]" * 40 + b"\n\n",
        b'data: "\xe2\x80\xa8data: [[[[[[[[[["\n\n',
        b'data: {"a": "\rdata: [1,2,3,4,5,6,7,8,9,10,11]"}\n\n',
        b"data: \xff\n\n",
        b": " + b"x" * 500 + b"\n\n",
        b"data: 1\n" * (MAX_EVENTS + 1),
        b"data:" + b"[" + b",".join([b"1"] * 50) + b"]",
    ],
    ids=["values", "deep", "a line in a text", "a return in a text", "no text", "bytes", "events", "no end"],
)
async def test_an_event_beyond_its_bounds_reaches_no_parser(hostile: bytes) -> None:
    body = Body(b"data: 1\n\n", hostile)
    size = 10_000 if hostile.count(b"\n") > 10 else 400
    with pytest.raises(ReplyTooLarge):
        await all_lines(body, Bounds(size, 20))
    assert body.closed


async def test_events_that_are_encoded_or_were_not_asked_for_are_no_stream() -> None:
    body = Body(b"data: 1\n\n")
    with pytest.raises(ReplyTooLarge, match="encoded"):
        await all_lines(body, Bounds(100, 5), EVENTS | {"Content-Encoding": "gzip"})
    assert (body.taken, body.closed) == (0, True)
    whole = Body(b"data: 1\n\n", b"x" * 100)
    async with httpx.AsyncClient(transport=BoundedTransport(Saying(whole, headers=EVENTS), Bounds(50, 5))) as client:
        with pytest.raises(ReplyTooLarge):
            await client.get(URL)


def event(**members: Any) -> StreamResponse:
    return ParseDict(members, StreamResponse())


def status(state: str, task: str = "t", **metadata: Any) -> StreamResponse:
    told = {"taskId": task, "contextId": "c", "status": {"state": state}, "metadata": metadata}
    return event(statusUpdate=told)


def artifact(name: str, task: str = "t") -> StreamResponse:
    return event(artifactUpdate={"taskId": task, "contextId": "c", "artifact": {"artifactId": name, "name": name}})


BEGUN = event(task={"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}})


def test_the_events_of_a_call_become_the_task_that_a_reply_would_have_been() -> None:
    gathered = Gathered()
    told = [
        gathered.take(one)
        for one in (
            BEGUN,
            status("TASK_STATE_WORKING", **{PROGRESS_KEY: {"percent": 40}}),
            artifact("result"),
            artifact("provenance"),
            status("TASK_STATE_COMPLETED", decision="d"),
        )
    ]
    task = gathered.task
    assert told == [None, 40, None, None, None]
    assert (task.id, task.status.state) == ("t", TaskState.TASK_STATE_COMPLETED)
    assert [item.name for item in task.artifacts] == ["result", "provenance"]
    assert list(task.metadata.fields) == ["decision"]


@pytest.mark.parametrize(
    "foreign",
    [
        status("TASK_STATE_COMPLETED", "other"),
        artifact("result", "other"),
        status("TASK_STATE_COMPLETED", ""),
        artifact("result", ""),
    ],
)
def test_an_event_of_another_task_or_of_none_is_no_part_of_it(foreign: StreamResponse) -> None:
    gathered = Gathered()
    with pytest.raises(ValueError, match="another task"):
        gathered.take(foreign)
    gathered.take(BEGUN)
    with pytest.raises(ValueError, match="another task"):
        gathered.take(foreign)


@pytest.mark.parametrize("said", [-1, 101, 1e300, "50", None, {}, [50], True])
def test_what_is_no_percentage_is_not_told(said: Any) -> None:
    gathered = Gathered()
    gathered.take(BEGUN)
    assert gathered.take(status("TASK_STATE_WORKING", **{PROGRESS_KEY: {"percent": said}})) is None
    assert gathered.take(status("TASK_STATE_WORKING", **{PROGRESS_KEY: said})) is None
