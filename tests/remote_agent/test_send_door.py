"""A plain SendMessage is answered, or refused, in the very words of the SDK's door; any other goes through that."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from contract.extension import EXTENSION_URI
from contract.result import CacheOutcome, Execution, ResultDocument, StoredResult
from contract.verdict import Decision, Reason
from evidence.checkpoint import Checkpoint, Receipt
from remote_agent.authentication import BODY, CALLER
from remote_agent.caller import Caller
from remote_agent.context import GovernedContextBuilder
from remote_agent.door import tell
from remote_agent.handler import GovernedRequestHandler
from remote_agent.outcome import Answer, Request
from remote_agent.protocol import jsonrpc_dispatcher
from remote_agent.send_door import SendDoor
from remote_agent.tasks import TaskMemory
from remote_agent.underway import Underway
from remote_agent.wire import task_of

GRANTED = Decision(Reason.PRINCIPAL_AUTHORIZED, "P-1", "1", "permitted")
RECEIPT = Receipt(3, bytes(32), Checkpoint("o", 4, bytes(32), "2026-01-01T00:00:00Z", bytes(64)), (bytes(32),), b"o")
ENVELOPE = {"payloadType": "t", "payload": "ü" * 9, "signatures": [{"keyid": "k", "sig": "s"}]}
RUN = Execution("exe-1", "duckdb", None, "LOCAL", 1.0, 2.0)
WHOLE = ResultDocument(b'{"rows":[["\xc3\xbc",1]]}', 1, False, "2026-01-01T00:00:00Z")
LARGE = StoredResult(
    result_id="r", url="https://a/results/r", size=9, row_count=2, truncated=True, digest="d" * 64,
    as_of="2026-01-01T00:00:00Z", expires_at=2.5, media_type="application/json",
)  # fmt: skip
ANSWERS = {
    "rows": Answer(
        GRANTED, document=WHOLE, execution=RUN, cache=CacheOutcome("HIT", "k"), receipt=RECEIPT, envelope=ENVELOPE
    ),
    "a large result": Answer(
        GRANTED, document=LARGE, execution=RUN, cache=CacheOutcome("MISS", "k"), receipt=RECEIPT, envelope=ENVELOPE
    ),
    "a refusal": Answer(Decision(Reason.INSUFFICIENT_PRIVILEGE, "P-1", "1", "it is not permitted"), receipt=RECEIPT),
    "no evidence": Answer(Decision(Reason.EVIDENCE_UNAVAILABLE, None, "1", "not now")),
    "a question back": Answer(
        Decision(Reason.ARGUMENTS_MISSING, None, "1", "say more"),
        receipt=RECEIPT,
        proposal={"missing": [{"name": "ä"}]},
    ),
    "a proposal": Answer(GRANTED, receipt=RECEIPT, proposal={"dataset": "d", "n": 1}),
}
IDS = re.compile(r"\b(task|ctx|msg|art)-[0-9a-f]{32}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
SENT: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendMessage",
    "params": {
        "message": {
            "messageId": "m",
            "role": "ROLE_USER",
            "parts": [{"raw": base64.b64encode(b"{}").decode(), "mediaType": "application/json"}],
        }
    },
}
PLACES: tuple[tuple[str | int, ...], ...] = (
    ("jsonrpc",), ("id",), ("method",), ("params",), ("extra",), ("params", "message"), ("params", "configuration"),
    ("params", "tenant"), ("params", "metadata"), ("params", "message", "messageId"), ("params", "message", "taskId"),
    ("params", "message", "contextId"), ("params", "message", "role"), ("params", "message", "parts"),
    ("params", "message", "extensions"), ("params", "message", "parts", 0), ("params", "message", "parts", 0, "raw"),
    ("params", "message", "parts", 0, "text"), ("params", "message", "parts", 0, "mediaType"),
    ("params", "configuration", "acceptedOutputModes"), ("params", "configuration", "returnImmediately"),
    ("params", "configuration", "historyLength"), ("params", "configuration", "taskPushNotificationConfig"),
)  # fmt: skip
VALUES = st.sampled_from(
    [..., None, True, False, 0, 1, -1, 1.5, 2**70, "", "x", "ü", "2.0", "ROLE_AGENT", "ROLE_UNSPECIFIED", "GetTask", "e30",
     "e30=", "A", "a\u0000b", "i" * 600, [], ["application/json"], ["text/html"], {}, {"raw": ""}, {"text": "t"}, [{"text": "t"}]]
)  # fmt: skip
HEADERS = ((b"a2a-version", b"1.0"), (b"a2a-extensions", EXTENSION_URI.encode()), (b"execution-grant", b"e.e.e"))


def changed(changes: list[tuple[tuple[str | int, ...], Any]]) -> bytes:
    """A plain SendMessage with other values at some places, ``...`` for none."""
    sent = json.loads(json.dumps(SENT))
    for place, value in changes:
        inside = sent
        try:
            for step in place[:-1]:
                inside = inside.setdefault(step, {}) if isinstance(inside, dict) else inside[step]
            if value is ...:
                del inside[place[-1]]
            else:
                inside[place[-1]] = json.loads(json.dumps(value))
        except (TypeError, KeyError, IndexError, AttributeError):
            continue  # an earlier change took the place away
    return json.dumps(sent).encode()


@st.composite
def cut(draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    """A plain SendMessage with other bytes somewhere."""
    sent = json.dumps(SENT).encode()
    start = draw(st.integers(0, len(sent)))
    with_what = draw(st.sampled_from([b"", b'"', b"}", b"{", b"\\", b"1", b",", b"NaN", b'"id":2,', b"\xff"]))
    return sent[:start] + with_what + sent[start + draw(st.integers(0, 3)) :]


BODIES = st.lists(st.tuples(st.sampled_from(PLACES), VALUES), max_size=3).map(changed) | cut()


class World:
    """The SDK's door, and the short one before it, to a handler of their own; they count what each answered."""

    def __init__(self, answer: Answer | Exception) -> None:
        self.asked: list[Request] = []
        self.through = 0

        async def respond(request: Request, _: Underway) -> Answer:
            self.asked.append(request)
            if isinstance(answer, Exception):
                raise answer
            return answer

        handler = GovernedRequestHandler(respond, respond, respond, TaskMemory(10))  # type: ignore[arg-type]
        dispatcher = jsonrpc_dispatcher(handler, GovernedContextBuilder())
        self.sdk = Starlette(routes=[Route("/", dispatcher.handle_requests, methods=["POST"])])
        self.short = SendDoor(self._counted, handler, dispatcher)

    async def _counted(self, *call: Any) -> None:
        self.through += 1
        await self.sdk(*call)


async def said(app: Any, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = HEADERS) -> Any:
    """Status, media type and JSON of what ``app`` answers, ids and instants left out; numbers are told from booleans."""
    scope = {
        "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "root_path": "", "query_string": b"",
        "headers": list(headers), BODY: body, CALLER: Caller("urn:a"),
    }  # fmt: skip
    out: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        out.append(message)

    await app(scope, receive, send)
    whole = b"".join(message.get("body", b"") for message in out)
    lines = dict(out[0]["headers"])
    assert int(lines[b"content-length"]) == len(whole)
    told = json.dumps(json.loads(whole), sort_keys=True)
    return out[0]["status"], lines[b"content-type"], IDS.sub("-", told)


def both(answer: Answer | Exception, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[World, World, Any]:
    short, sdk = World(answer), World(answer)
    first = asyncio.run(said(short.short, body, headers or HEADERS))
    second = asyncio.run(said(sdk.sdk, body, headers or HEADERS))
    assert first == second
    assert [(one.call, one.question, one.grants, one.operation, one.media_type) for one in short.asked] == [
        (one.call, one.question, one.grants, one.operation, one.media_type) for one in sdk.asked
    ]
    return short, sdk, first


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_every_answer_is_told_as_the_sdk_tells_it(answer: Answer) -> None:
    short, _, _ = both(answer, changed([]))
    assert short.through == 0


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_json_and_protobuf_say_the_same(answer: Answer) -> None:
    told = tell(answer, "t", "c")
    assert isinstance(task_of(told), Task)
    assert json.dumps(MessageToDict(task_of(told)), sort_keys=True) == json.dumps(told, sort_keys=True)
    assert ParseDict(told, Task()) == task_of(told)


@given(BODIES)
@settings(max_examples=300)
def test_whatever_is_sent_is_answered_or_refused_as_by_the_sdk(body: bytes) -> None:
    both(ANSWERS["rows"], body)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        HEADERS[1:],
        HEADERS[:1],
        ((b"a2a-version", b"0.3"), *HEADERS[1:]),
        ((b"a2a-version", b"1.7"), *HEADERS[1:]),
        ((b"a2a-version", b""), *HEADERS[1:]),
        ((b"a2a-version", b"1.0"), (b"a2a-version", b"0.3"), *HEADERS[1:]),
        ((b"a2a-version", b"0.3"), *HEADERS),
        (*HEADERS, (b"execution-grant", b"another")),
        (HEADERS[0], (b"a2a-extensions", b"x, " + EXTENSION_URI.encode()), (b"a2a-extensions", b"y")),
    ],
)
def test_versions_extensions_and_grants_are_heard_as_by_the_sdk(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    both(ANSWERS["rows"], changed([]), *(headers or ((b"x", b"y"),)))


def test_a_fault_is_an_internal_error_and_says_nothing_of_itself() -> None:
    _, _, (_, _, told) = both(ValueError("secret"), changed([]))
    assert '"code": -32603' in told
    assert "secret" not in told


@pytest.mark.parametrize("place", [("/", "GET"), ("/v1/message:send", "POST")])
def test_any_other_place_is_the_applications(place: tuple[str, str]) -> None:
    world, reached = World(ANSWERS["rows"]), []

    async def app(scope: Any, *_: Any) -> None:
        reached.append((scope["path"], scope["method"]))

    world.short._app = app
    asyncio.run(world.short({"type": "http", "path": place[0], "method": place[1]}, None, None))  # type: ignore[arg-type]
    assert reached == [place]


def test_who_does_not_wait_for_the_answer_is_answered_by_the_application() -> None:
    """It alone knows tasks that go on with nobody waiting."""
    for immediately, through in ((True, 1), (False, 0)):
        body = changed([(("params", "configuration"), {"returnImmediately": immediately})])
        short, _, _ = both(ANSWERS["rows"], body)
        assert short.through == through
