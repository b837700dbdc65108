"""A fault as a plain HTTP answer says its status, how to come in, and when to come again."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from contract.errors import Category, Component, DatasetAgentError
from contract.problem import send_problem


async def answered(category: Category, retry_after: float | None = None) -> tuple[int, dict[bytes, bytes], Any]:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    fault = DatasetAgentError(Component.COMMAND, category, "command.door", "come in", retry_after=retry_after)
    await send_problem(send, fault, realm="a-door")
    start, body = sent
    headers = dict(start["headers"])
    assert int(headers[b"content-length"]) == len(body["body"])
    return start["status"], headers, json.loads(body["body"])


async def test_its_details_are_the_faults_own_and_no_cache_keeps_them() -> None:
    status, headers, problem = await answered(Category.CONFLICT)
    assert (status, problem["status"], problem["code"]) == (409, 409, "command.door")
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"cache-control"] == b"no-store"
    assert not {b"www-authenticate", b"retry-after"} & headers.keys()


async def test_who_is_not_authenticated_is_told_by_which_token_they_would_be() -> None:
    status, headers, _ = await answered(Category.UNAUTHENTICATED)
    assert (status, headers[b"www-authenticate"]) == (401, b'Bearer realm="a-door"')


@pytest.mark.parametrize(("seconds", "told"), [(0.01, b"1"), (1.0, b"1"), (1.2, b"2")])
async def test_when_to_come_again_is_told_in_whole_seconds_and_never_too_early(seconds: float, told: bytes) -> None:
    _, headers, _ = await answered(Category.RATE_LIMITED, seconds)
    assert headers[b"retry-after"] == told
