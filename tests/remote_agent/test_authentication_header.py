"""One Authorization header of one scheme, and a body that is bounded while it arrives."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from contract.errors import Category, DatasetAgentError
from remote_agent.authentication import BODY, PUBLIC, Gate, bearer, bounded_body
from remote_agent.caller import Caller


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "BEARER  abc "])
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(header: str) -> None:
    assert bearer(header) == "abc"


@pytest.mark.parametrize("header", [None, "", "abc", "Basic abc", "Token abc", "Bearer", "Bearer ", "Bearer   "])
def test_another_scheme_and_an_empty_token_are_nobody(header: str | None) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        bearer(header)
    assert (stop.value.category, stop.value.code) == (Category.UNAUTHENTICATED, "remote_agent.client.missing")


async def body(*chunks: bytes, kept: bool = True) -> bytes:
    arriving = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]

    async def receive() -> Message:
        return arriving.pop(0) if arriving else {"type": "http.request", "body": b"", "more_body": False}

    return await bounded_body(receive, 10, kept=kept)


async def test_a_body_is_refused_at_the_byte_that_is_too_many() -> None:
    assert await body(b"12345", b"67890") == b"1234567890"
    with pytest.raises(DatasetAgentError) as stop:
        await body(b"12345", b"67890", b"1")
    assert stop.value.code == "remote_agent.body.too_large"


async def test_of_a_body_that_nobody_reads_nothing_is_kept_and_it_is_bounded_all_the_same() -> None:
    assert await body(b"12345", b"67890", kept=False) == b""
    with pytest.raises(DatasetAgentError):
        await body(b"12345", b"67890", b"1", kept=False)


@pytest.mark.parametrize("path", sorted(PUBLIC))
async def test_what_a_stranger_sends_to_a_public_route_is_not_held(path: str) -> None:
    """While it arrives, and it may never end: a thousand connections would hold a thousand of them."""
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope[BODY], await receive()))

    def nobody(_: str | None) -> Caller:
        raise AssertionError("a public route asks for nobody")

    async def receive() -> Message:
        return {"type": "http.request", "body": b"12345", "more_body": False}

    async def send(_: Message) -> None:
        return

    scope = {"type": "http", "path": path, "method": "GET", "headers": []}
    await Gate(app, nobody, 10)(scope, receive, send)
    assert seen == [b"", {"type": "http.request", "body": b"", "more_body": False}]
