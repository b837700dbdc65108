"""One Authorization header of one scheme, and a body that is bounded while it arrives."""

from __future__ import annotations

import pytest
from starlette.types import Message

from contract.errors import Category, DatasetAgentError
from remote_agent.authentication import bearer, bounded_body


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "BEARER  abc "])
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(header: str) -> None:
    assert bearer(header) == "abc"


@pytest.mark.parametrize("header", [None, "", "abc", "Basic abc", "Token abc", "Bearer", "Bearer ", "Bearer   "])
def test_another_scheme_and_an_empty_token_are_nobody(header: str | None) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        bearer(header)
    assert (stop.value.category, stop.value.code) == (Category.UNAUTHENTICATED, "remote_agent.client.missing")


async def test_a_body_is_refused_at_the_byte_that_is_too_many() -> None:
    async def body(*chunks: bytes) -> bytes:
        arriving = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]

        async def receive() -> Message:
            return arriving.pop(0) if arriving else {"type": "http.request", "body": b"", "more_body": False}

        return await bounded_body(receive, 10)

    assert await body(b"12345", b"67890") == b"1234567890"
    with pytest.raises(DatasetAgentError) as stop:
        await body(b"12345", b"67890", b"1")
    assert stop.value.code == "remote_agent.body.too_large"
