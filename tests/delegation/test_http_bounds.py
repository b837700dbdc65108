"""What another agent replies is bounded before anybody reads it: its bytes, its values, its depth."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from contract.settings import Settings
from delegation.card_reader import CARD_BOUNDS
from delegation.http import REPLY_VALUES, BoundedTransport, Bounds, ReplyTooLarge, open_http
from tests.root_agent.scripted_remote import listening

URL = "http://127.0.0.1:1/"


class Body(httpx.AsyncByteStream):
    """A body in pieces; it tells how much of it was taken and whether it was closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.taken = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.taken += 1
            yield piece

    async def aclose(self) -> None:
        self.closed = True


class Saying(httpx.AsyncBaseTransport):
    def __init__(self, body: Body, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._response = status, headers, body

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        status, headers, body = self._response
        return httpx.Response(status, headers=headers, stream=body)


async def get(inner: httpx.AsyncBaseTransport, bounds: Bounds, **request: object) -> httpx.Response:
    async with httpx.AsyncClient(transport=BoundedTransport(inner, bounds)) as client:
        return await client.get(URL, **request)  # type: ignore[arg-type]


async def test_a_reply_within_its_bounds_is_handed_on_as_it_is() -> None:
    reply = await get(Saying(Body(b'{"a":', b"[1]}"), headers={"X-Note": "kept"}), Bounds(9, 4))
    assert (reply.json(), reply.headers["x-note"]) == ({"a": [1]}, "kept")


async def test_no_more_is_taken_of_a_reply_than_is_needed_to_see_that_it_is_too_large() -> None:
    body = Body(b"1" * 10, b"2" * 10, b"3" * 10)
    with pytest.raises(ReplyTooLarge, match="over 15 bytes"):
        await get(Saying(body), Bounds(15, 100))
    assert (body.taken, body.closed) == (2, True)


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" + b",".join([b"1"] * 200) + b"]",
        b"[" + b",".join([b"[[[[]]]]"] * 40) + b"]",
        b"[" + b",".join([b"{}"] * 90) + b"]",
        b"[" * 33 + b"]" * 33,
        b"\xff",
        b"[1" + b"0" * 500 + b"]",
    ],
    ids=["values", "nested", "objects", "deep", "no text", "a long number"],
)
@pytest.mark.parametrize("padding", [0, 100_000])
async def test_a_reply_of_another_shape_reaches_no_parser(hostile: bytes, padding: int) -> None:
    body = Body(hostile + b" " * padding)
    with pytest.raises(ReplyTooLarge):
        await get(Saying(body), Bounds(200_000, 100))
    assert body.closed


async def test_what_is_inside_text_counts_as_bytes_only() -> None:
    rows = json.dumps({"raw": "[{,}]" * 1_000}).encode()
    assert (await get(Saying(Body(rows)), Bounds(len(rows), 5))).content == rows


async def test_only_a_request_that_says_so_has_other_bounds() -> None:
    many = b"[" + b",".join([b"1"] * 50) + b"]"
    wide = Bounds(1_000, 100)
    assert (await get(Saying(Body(many)), Bounds(10, 10), extensions=wide.extensions)).content == many
    with pytest.raises(ReplyTooLarge):
        await get(Saying(Body(many)), Bounds(1_000, 10), extensions={})
    with pytest.raises(ReplyTooLarge):
        await get(Saying(Body(many)), wide, extensions=Bounds(1_000, 10).extensions)


@pytest.mark.parametrize("status", [302, 401, 500])
async def test_the_body_of_an_error_is_not_read(status: int) -> None:
    body = Body(b"x" * 1_000)
    reply = await get(Saying(body, status), Bounds(10, 10))
    assert (reply.status_code, reply.content, body.taken, body.closed) == (status, b"", 0, True)


async def test_a_reply_that_is_encoded_is_not_read() -> None:
    body = Body(b"x")
    with pytest.raises(ReplyTooLarge, match="encoded"):
        await get(Saying(body, headers={"Content-Encoding": "gzip"}), Bounds(10, 10))
    assert (body.taken, body.closed) == (0, True)


def many(values: int) -> bytes:
    return b"[" + b",".join([b"1"] * values) + b"]"


async def serving(app: Callable[..., object], **request: object) -> bytes:
    async with listening(app) as port, open_http(Settings(max_result_bytes=2**20)) as client:
        return (await client.get(f"http://127.0.0.1:{port}/", **request)).content  # type: ignore[arg-type]


def answering(body: bytes) -> Callable[..., object]:
    async def app(scope: object, receive: object, send: Callable[[dict[str, object]], object]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": body})  # type: ignore[misc]

    return app


async def test_the_client_of_both_agents_has_the_bounds_of_a_reply_unless_a_card_is_asked_for() -> None:
    assert await serving(answering(many(REPLY_VALUES - 1)))
    card = many(REPLY_VALUES + 1)
    with pytest.raises(ReplyTooLarge):
        await serving(answering(card))
    assert await serving(answering(card), extensions=CARD_BOUNDS.extensions) == card
    with pytest.raises(ReplyTooLarge):
        await serving(answering(many(CARD_BOUNDS.values + 1)), extensions=CARD_BOUNDS.extensions)
    rows = b'"' + b"A" * 2 * 2**20 + b'"'
    assert await serving(answering(rows)) == rows
    with pytest.raises(ReplyTooLarge):
        await serving(answering(b'"' + b"A" * 3 * 2**20 + b'"'))
