"""One list of the tasks that several workers remember.

Each worker is asked for its own part by the very request that came, so each verifies the client.
A part is ordered as its worker remembers it; parts are merged by the time of their status, what
works now before what has ended. The token of the next page says how far each part was read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, cast

import httpx
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from remote_agent.protocol import NotNow
from remote_agent.siblings import ARRIVED, Arrived, Siblings
from remote_agent.siblings_door import WorkerGone, asked, unanswered

Page = Callable[[ListTasksRequest], ListTasksResponse]
_PATIENCE_S: Final = 10.0
_MAX_BYTES: Final = 64 * 2**20
_READ: Final = re.compile(r"([0-9]{1,2})=([^,=]+)")
_WITHOUT: Final = (b"content-type", b"accept", b"accept-encoding")


async def listed(params: ListTasksRequest, own: Page, siblings: Siblings) -> ListTasksResponse:
    """The page that is asked for; ``own`` is this worker's part. Raises ``NotNow`` where a worker does not answer."""
    arrived = ARRIVED.get()
    if arrived is None or arrived.stays:
        return own(params)
    read = dict(_READ.findall(params.page_token))
    parts = {number: _part(params, read.get(str(number), "")) for number in range(siblings.count)}
    try:
        async with asyncio.timeout(_PATIENCE_S):
            told = await asyncio.gather(*(_of(number, parts[number], arrived, siblings) for number in siblings.others))
    except (TimeoutError, httpx.TransportError, ValueError, KeyError, ParseError) as error:
        raise NotNow(unanswered()) from error
    pages = {siblings.own: own(parts[siblings.own])} | dict(zip(siblings.others, told, strict=True))
    return _merged(pages, read)


def _part(params: ListTasksRequest, token: str) -> ListTasksRequest:
    part = ListTasksRequest()
    part.CopyFrom(params)
    part.page_token = token
    return part


async def _of(worker: int, part: ListTasksRequest, arrived: Arrived, siblings: Siblings) -> ListTasksResponse:
    """Another worker's part. One that has ended has none."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": MessageToDict(part)}
    headers = [pair for pair in arrived.headers if pair[0] not in _WITHOUT]
    told = replace(
        arrived, headers=[*headers, (b"content-type", b"application/json")], body=[json.dumps(body).encode()]
    )
    try:
        async with asked(siblings, worker, "POST", b"/", told) as answer:
            found = json.loads(await _whole(answer))
    except WorkerGone:
        return ListTasksResponse()
    response: ListTasksResponse = ParseDict(found["result"], ListTasksResponse())
    return response


async def _whole(answer: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in cast(AsyncIterator[bytes], answer.stream):
        body += piece
        if len(body) > _MAX_BYTES:
            raise ValueError("a worker's list is too large")
    return bytes(body)


def _merged(pages: Mapping[int, ListTasksResponse], read: dict[str, str]) -> ListTasksResponse:
    """The newest of all parts, as many as one page has."""
    size = max(page.page_size for page in pages.values())
    tasks = []
    for number, task in itertools.islice(_newest_first(pages), size):
        tasks.append(task)
        read[str(number)] = task.id
    more = sum(len(page.tasks) for page in pages.values()) > len(tasks)
    more = more or any(page.next_page_token for page in pages.values())
    return ListTasksResponse(
        tasks=tasks,
        next_page_token=",".join(f"{number}={last}" for number, last in sorted(read.items())) if more else "",
        page_size=size,
        total_size=sum(page.total_size for page in pages.values()),
    )


def _newest_first(pages: Mapping[int, ListTasksResponse]) -> Iterator[tuple[int, Task]]:
    left = {number: deque(page.tasks) for number, page in pages.items()}
    while heads := {number: _when(tasks[0]) for number, tasks in left.items() if tasks}:
        newest = max(heads, key=lambda number: heads[number])
        yield newest, left[newest].popleft()


def _when(task: Task) -> float:
    """What works has no time yet: it is now."""
    return float(task.status.timestamp.ToNanoseconds()) if task.status.HasField("timestamp") else math.inf
