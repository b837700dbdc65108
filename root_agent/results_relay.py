"""``GET /results/{id}`` of the root agent: a large result for the application that asked, straight through.

The person's bearer token says who asks, as for ``POST /ask``; only the person who got the answer
finds its result. Bytes are fetched from the dataset agent under fresh leaves while they are sent
on, and nothing of them is kept. The last of them leave only when the whole was found to be what
was signed: what ends before ``Content-Length`` is no result.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from contract.errors import Category, Component, DatasetAgentError
from contract.result import StoredResult
from contract.tracing import take_in
from contract.verdict import VERDICTS, NotGranted, Reason, Verdict
from root_agent.asking import Answer
from root_agent.identity import RequestContext
from root_agent.results import fetch_result
from root_agent.service import Service

log = logging.getLogger(__name__)

PATH: Final = "/results/{result_id}"
MAX_WAITING: Final = 1_000
_PART: Final = 4
"""One person has at most so small a part of them, so that whoever asks much makes nobody else's be forgotten."""
_PIECES: Final = 4
"""How many pieces, of 64 KiB or so, may be ahead of the reader."""
_STATUS: Final = {Reason.RESULT_NOT_FOUND: 404}


class Waiting:
    """Answers whose rows have yet to be fetched, until they expire; who has their part of them loses their own oldest.

    An id is looked up among those of whoever fetches: each dataset agent chooses the ids of its own.
    """

    def __init__(self, clock: Callable[[], float], *, limit: int = MAX_WAITING) -> None:
        self._clock = clock
        self._limit = limit
        self._answers: OrderedDict[tuple[tuple[str, str], str], tuple[StoredResult, Answer]] = OrderedDict()

    def keep(self, answer: Answer) -> None:
        """Remember a granted answer that did not bring its rows."""
        if not isinstance(answer.document, StoredResult):
            return
        now = self._clock()
        for name in [name for name, (stored, _) in self._answers.items() if now >= stored.expires_at]:
            del self._answers[name]
        who = _person(answer)
        self._answers[who, answer.document.result_id] = (answer.document, answer)
        theirs = [name for name in self._answers if name[0] == who]
        for name in theirs[: -max(1, self._limit // _PART)]:
            del self._answers[name]
        while len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def find(self, result_id: str, person: RequestContext) -> tuple[StoredResult, Answer]:
        """Raises NOT_FOUND, in the same words for what is another's, has expired or never was."""
        held = self._answers.get(((person.issuer, person.subject), result_id))
        if held is not None and self._clock() < held[0].expires_at:
            return held
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.NOT_FOUND,
            "root_agent.result.not_found",
            "no such result waits for this person; it may have expired: ask again",
        )


def _person(answer: Answer) -> tuple[str, str]:
    asked = answer.asking.person
    return asked.issuer, asked.subject


class RelayDoor:
    """The ASGI application behind ``PATH``. ``bearer`` reads the person's token of a request."""

    def __init__(self, service: Service, waiting: Waiting, bearer: Callable[[Request], str | None]) -> None:
        self._service = service
        self._waiting = waiting
        self._bearer = bearer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        person = await self._service.person(self._bearer(request))
        take_in(scope["headers"])
        if request.method != "GET":
            await _reply(send, 405, b"", [(b"allow", b"GET")])
            return
        stored, answer = self._waiting.find(str(request.path_params["result_id"]), person)
        # Where it is admitted again meanwhile, that rests on who asks now.
        answer = replace(answer, asking=replace(answer.asking, person=person))
        relaying = asyncio.ensure_future(self._relay(stored, answer, send))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({relaying, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not relaying.done():  # nobody reads it any more
                relaying.cancel()
                await asyncio.wait({relaying})
        if not relaying.cancelled():
            relaying.result()

    async def _relay(self, stored: StoredResult, answer: Answer, send: Send) -> None:
        pipe = _Pipe()
        fetching = asyncio.ensure_future(self._fetched(answer, pipe))
        try:
            started = False
            while (piece := await pipe.piece()) is not None:
                if not started:
                    await send({"type": "http.response.start", "status": 200, "headers": _headers(stored)})
                    started = True
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            stop = await fetching
            if stop is None and not started:  # a result of one piece
                await send({"type": "http.response.start", "status": 200, "headers": _headers(stored)})
            if stop is None:
                await send({"type": "http.response.body", "body": pipe.last})
            elif not started:
                await _refuse(send, stop)
            else:
                log.info("a result was broken off")
        finally:
            fetching.cancel()
            with suppress(asyncio.CancelledError):
                await fetching

    async def _fetched(self, answer: Answer, pipe: _Pipe) -> NotGranted | None:
        """Why the result cannot be had, ``None`` where all of it came and holds."""
        try:
            await fetch_result(answer, self._service, pipe)
        except NotGranted as stop:
            return stop
        except Exception as fault:
            log.error("a result could not be passed on: %s", type(fault).__name__)
            return NotGranted(Reason.EXECUTION_FAILED, "the root agent failed")
        finally:
            pipe.end()
        return None


class _Pipe:
    """From one who writes to one who reads, a few pieces apart; the newest piece is kept back."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(_PIECES)
        self.last = b""

    async def write(self, data: bytes) -> None:
        """Waits while the reader is behind."""
        before, self.last = self.last, data
        if before:
            await self._room.acquire()
            self._pieces.put_nowait(before)

    def end(self) -> None:
        self._pieces.put_nowait(None)

    async def piece(self) -> bytes | None:
        """The next piece; ``None`` at the end, when ``last`` is left."""
        found = await self._pieces.get()
        self._room.release()
        return found


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _headers(stored: StoredResult) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", stored.media_type.encode()),
        (b"content-length", str(stored.size).encode()),
        (b"etag", f'"{stored.digest}"'.encode()),
        (b"repr-digest", b"sha-256=:" + base64.b64encode(bytes.fromhex(stored.digest)) + b":"),
        (b"cache-control", b"no-store"),
    ]


async def _refuse(send: Send, stop: NotGranted) -> None:
    verdict = VERDICTS[stop.reason]
    status = _STATUS.get(stop.reason) or (503 if verdict is Verdict.INDETERMINATE else 403)
    problem: dict[str, Any] = {
        "type": f"urn:dataset-agent:reason:{stop.reason.value}",
        "title": f"{verdict.value} {stop.reason.value}",
        "status": status,
        "detail": stop.message,
        "reason": stop.reason.value,
    }
    await _reply(send, status, json.dumps(problem).encode(), [(b"content-type", b"application/problem+json")])


async def _reply(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
