"""What a policy server may cost and whom it may stand in for: it is not waited for, read or followed beyond what was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.errors import DatasetAgentError
from contract.verdict import Reason
from control_plane import evaluator as module
from control_plane.admission import decide
from control_plane.admission_rules import EvaluatorFailure
from control_plane.evaluator import EvaluatorTimeout, EvaluatorUnavailable, HttpEvaluator, InProcessEvaluator
from control_plane.policy import PolicyRequest, load_policies
from tests.control_plane.control_plane_world import make_principal, make_request, write_policies
from tests.control_plane.policy_servers import listening, served

PERMIT = {"result": {"outcome": "permit", "policy_id": "P-1", "policy_version": "1"}}
QUESTION = PolicyRequest.from_json(
    {
        "principal": {
            "issuer": "https://i.example",
            "subject": "u",
            "tenant": "acme",
            "principal_class": "c",
            "clearance": "internal",
            "attributes": {},
        },
        "dataset": "plants",
        "tenant": "acme",
        "capability": "read",
        "effect": "read",
        "sensitivity": "internal",
        "policy_id": None,
        "entitled": True,
    }
)


@asynccontextmanager
async def saying(
    head: list[tuple[bytes, bytes]], pieces: Iterator[bytes], *, status: int, pause: float
) -> AsyncIterator[str]:
    """A server whose answer comes in pieces, with a pause between them."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": head})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": b""})

    async with listening(app) as url:
        yield url


async def asked(url: str, budget: float = 5) -> Any:
    evaluator = HttpEvaluator(url, budget)
    try:
        return await evaluator.evaluate(QUESTION)
    finally:
        await evaluator.close()


async def test_an_answer_that_drips_is_waited_for_within_the_budget_of_the_whole() -> None:
    """Each piece comes in time, so no timeout of a read would end it."""
    body = json.dumps(PERMIT).encode()
    pieces = (body[at : at + 1] for at in range(len(body)))
    async with saying([], pieces, status=200, pause=0.02) as url:
        with pytest.raises(EvaluatorTimeout):
            await asked(url, 0.4)


async def test_an_answer_without_end_is_read_no_further_than_it_may_be() -> None:
    async with saying([], iter(lambda: b"a" * 65_536, b""), status=200, pause=0) as url:
        with pytest.raises(EvaluatorUnavailable):
            await asked(url)


async def test_a_redirect_to_a_server_that_permits_is_not_followed() -> None:
    async def permits(_: dict[str, Any]) -> tuple[int, bytes]:
        return 200, json.dumps(PERMIT).encode()

    async with served(permits) as there:
        assert (await asked(there)).policy_id == "P-1"
        where = [(b"location", f"{there}{module.DECISION_PATH}".encode())]
        async with saying(where, iter(()), status=307, pause=0) as url:
            with pytest.raises(EvaluatorUnavailable):
                await asked(url)


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.readline())
        writer.close()

    async def permits(_: dict[str, Any]) -> tuple[int, bytes]:
        return 200, json.dumps(PERMIT).encode()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, address)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with server, served(permits) as url:
        assert (await asked(url)).policy_id == "P-1"
    assert reached == []


@pytest.mark.parametrize("reply", [b'["result"]', b'"result"', b"7", b"null"])
async def test_json_that_is_no_object_is_no_decision(reply: bytes) -> None:
    async with saying([], iter([reply]), status=200, pause=0) as url:
        with pytest.raises(EvaluatorUnavailable):
            await asked(url)


def test_no_more_answers_are_remembered_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 3)
    write_policies(tmp_path / "policies", '@id("P-1") permit (principal, action, resource);')
    evaluator = InProcessEvaluator(load_policies(tmp_path / "policies"), 5)
    people = [make_principal(subject=f"u-{number}") for number in range(10)]
    for person in people:
        asyncio.run(decide(make_request(principal=person), evaluator))
    assert len(evaluator._answers) <= 3


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.EVALUATOR_UNAVAILABLE, Reason.EVALUATOR_TIMEOUT}))
def test_an_evaluator_fails_in_two_ways_and_in_no_other(reason: Reason) -> None:
    with pytest.raises(ValueError, match="unavailable or late"):
        EvaluatorFailure(reason)


@pytest.mark.parametrize(
    "url", ["https://", "https:///v1", "http://127.0.0.1/#x", "https://policy.example/#x", "http://policy.example[::1]"]
)
def test_an_address_without_a_host_or_with_a_fragment_is_none(url: str) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_POLICY_URL"):
        HttpEvaluator(url)
