"""``GET /results/{task}``: translation between HTTP and ``results_release``, and nothing else.

The caller was authenticated before (``authentication.Gate``). The leaf is in the same header as
for a call, and the extension is activated in the same way. A refusal is a problem document with
the decision in it; whose a result is, or whether there is one, shows in none.
"""

from __future__ import annotations

import base64
import json
import logging
from typing import Any, Final

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from contract.call import GET_RESULTS, Operation
from contract.errors import Category, Component, DatasetAgentError
from contract.extension import EXTENSION_URI, GRANT_HEADER
from contract.verdict import Reason, Verdict
from remote_agent.authentication import CALLER
from remote_agent.caller import Caller
from remote_agent.outcome import Request as Governed
from remote_agent.refusals import OUTWARD
from remote_agent.results_range import Span
from remote_agent.results_release import Broken, Release, Wanted, Withheld, fetch
from remote_agent.service import Service
from remote_agent.siblings import Siblings

log = logging.getLogger(__name__)

PATH: Final = "/results/{task}"
_PROBLEM: Final = "application/problem+json"
Headers = list[tuple[bytes, bytes]]


class ResultsDoor:
    """The ASGI application behind ``PATH``."""

    def __init__(self, service: Service, siblings: Siblings) -> None:
        self._service = service
        self._siblings = siblings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":  # HEAD too: who may know of a result knows its size and digest
            await _reply(send, 405, b"", [(b"allow", b"GET")])
            return
        request = Request(scope)
        self._siblings.route(str(request.path_params["task"]))
        release = await fetch(_governed(request), _wanted(request), self._service)
        if isinstance(release, Withheld):
            await _refuse(send, release)
            return

        async def begin(started: Release) -> None:
            status = 206 if started.span.partial else 200
            await send({"type": "http.response.start", "status": status, "headers": _headers(started)})

        async def hand_over(data: bytes, ends: bool) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": not ends})

        try:
            await release.stream(begin, hand_over)
        except Broken:
            # The connection ends before the length that was promised, which is how the reader learns of it.
            log.info("a result was broken off")


def _governed(request: Request) -> Governed:
    caller: Caller = request.scope[CALLER]
    if EXTENSION_URI not in get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER)):
        raise DatasetAgentError(
            Component.REMOTE_AGENT,
            Category.INVALID_INPUT,
            "remote_agent.extension.required",
            f"activate {EXTENSION_URI} in the A2A-Extensions header",
        )
    return Governed(
        client=caller.agent,
        on_behalf_of=caller.person,
        operation=Operation(GET_RESULTS, task=str(request.path_params["task"])),
        grants=tuple(request.headers.getlist(GRANT_HEADER)),
        trace_id=caller.trace_id,
    )


def _wanted(request: Request) -> Wanted:
    ranges, same = request.headers.getlist("range"), request.headers.get("if-range")
    return Wanted(", ".join(ranges) if ranges else None, None if same is None else same.strip().strip('"'))


def _headers(release: Release) -> Headers:
    result, span = release.result, release.span
    headers: Headers = [
        (b"content-type", result.media_type.encode()),
        (b"content-length", str(span.length).encode()),
        (b"accept-ranges", b"bytes"),
        (b"etag", _etag(result.digest)),
        (b"repr-digest", b"sha-256=:" + base64.b64encode(bytes.fromhex(result.digest)) + b":"),
        (b"cache-control", b"no-store"),
    ]
    if span.partial:
        headers.append((b"content-range", _content_range(span)))
    return headers


def _etag(digest: str) -> bytes:
    return b'"' + digest.encode() + b'"'


def _content_range(span: Span) -> bytes:
    return b"bytes %d-%d/%d" % (span.first, span.last, span.size)


async def _refuse(send: Send, withheld: Withheld) -> None:
    decision = withheld.decision
    outward = OUTWARD[decision.reason]
    status, headers = _status(withheld), [(b"content-type", _PROBLEM.encode())]
    if withheld.size is not None:
        headers.append((b"content-range", b"bytes */%d" % withheld.size))
    problem: dict[str, Any] = {
        "type": f"urn:dataset-agent:reason:{decision.reason.value}",
        "title": f"{decision.verdict.value} {decision.reason.value}",
        "status": status,
        "detail": decision.rationale,
        "decision": decision.public(),
        "retryable": outward.retryable,
        "hint": outward.hint,
        "receipt": None if withheld.receipt is None else withheld.receipt.to_json(),
    }
    await _reply(send, status, json.dumps(problem).encode(), headers)


def _status(withheld: Withheld) -> int:
    if withheld.size is not None:
        return 416
    if withheld.decision.reason is Reason.RESULT_NOT_FOUND:
        return 404
    return 503 if withheld.decision.verdict is Verdict.INDETERMINATE else 403


async def _reply(send: Send, status: int, body: bytes, headers: Headers) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
