"""Both evaluators answer one table alike; whatever else comes back is unknown authority."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from control_plane.descriptor import Effect
from control_plane.evaluator import (
    DECISION_PATH,
    Evaluator,
    EvaluatorTimeout,
    EvaluatorUnavailable,
    HttpEvaluator,
    InProcessEvaluator,
    decision_document,
)
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest, PolicySet
from tests.control_plane.control_plane_world import make_policies, make_principal, make_question, permit
from tests.control_plane.policy_servers import Answerer, served

TEXT = """
@id("P-1") @mask("{\\"plants.id\\": \\"hash\\"}") permit (principal, action, resource) when { context.entitled };
@id("P-2") forbid (principal, action, resource) when { principal.principal_class == "stranger" };
@id("P-3") permit (principal, action == Action::"count", resource) when { principal.attributes.level > 2 };
@id("P-4") @rows("{\\"plants.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")
permit (principal, action == Action::"compare", resource) when { context.effect == "compute" };
"""
TABLE = {
    "entitled": (make_question(), Outcome.PERMIT, "P-1"),
    "not entitled": (make_question(principal=make_principal(entitlements={})), Outcome.NONE, None),
    "forbidden": (make_question(principal=make_principal(principal_class="stranger")), Outcome.FORBID, "P-2"),
    "another tenant": (make_question(tenant="other"), Outcome.PERMIT, "P-1"),
    "no level": (make_question(capability="count"), Outcome.MISSING_ATTRIBUTE, None),
    "level": (
        make_question(capability="count", principal=make_principal(attributes={"level": 3})),
        Outcome.PERMIT,
        "P-3",
    ),
    "low level": (
        make_question(capability="count", principal=make_principal(attributes={"level": 2})),
        Outcome.NONE,
        None,
    ),
    "level as text": (
        make_question(capability="count", principal=make_principal(attributes={"level": "3"})),
        Outcome.ERROR,
        None,
    ),
    "sites": (
        make_question(
            capability="compare",
            effect=Effect.COMPUTE,
            principal=make_principal(attributes={"sites": ("a", "b")}),
        ),
        Outcome.PERMIT,
        "P-4",
    ),
}


def _decides(policies: PolicySet) -> Answerer:
    async def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        return 200, json.dumps(decision_document(policies, body["input"])).encode()

    return answer


def _says(status: int, reply: bytes) -> Answerer:
    async def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        return status, reply

    return answer


async def _ask(url: str, budget: float = 5) -> PolicyAnswer:
    evaluator = HttpEvaluator(url, budget)
    try:
        return await evaluator.evaluate(make_question())
    finally:
        await evaluator.close()


@asynccontextmanager
async def _evaluator(kind: str, policies: PolicySet) -> AsyncIterator[Evaluator]:
    if kind == "in process":
        yield InProcessEvaluator(policies, 5)
        return
    async with served(_decides(policies)) as url:
        evaluator = HttpEvaluator(url, 5)
        yield evaluator
        await evaluator.close()


@pytest.mark.parametrize("kind", ["in process", "http"])
async def test_both_evaluators_answer_the_decision_table(tmp_path: Path, kind: str) -> None:
    policies = make_policies(tmp_path, TEXT)
    async with _evaluator(kind, policies) as evaluator:
        answers = {name: await evaluator.evaluate(question) for name, (question, _, _) in TABLE.items()}
    told = {name: (answer.outcome, answer.policy_id) for name, answer in answers.items()}
    assert told == {name: (outcome, policy_id) for name, (_, outcome, policy_id) in TABLE.items()}


async def test_both_evaluators_give_equal_answers_with_obligations_and_version(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)
    async with _evaluator("http", policies) as remote:
        for question, _, _ in TABLE.values():
            expected = await InProcessEvaluator(policies, 5).evaluate(question)
            assert (await remote.evaluate(question)).to_json() == expected.to_json()
        assert remote.version() == policies.version


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(EvaluatorUnavailable):
            await _ask(url, 5)


async def test_a_server_that_is_slow_is_late() -> None:
    never = asyncio.Event()

    async def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        await never.wait()
        return 200, b"{}"

    async with served(answer) as url:
        with pytest.raises(EvaluatorTimeout):
            await _ask(url, 0.05)
        never.set()


GOOD = permit().to_json()


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        pytest.param(500, b"{}", id="server error"),
        pytest.param(307, b"", id="redirect"),
        pytest.param(200, b"not json", id="not json"),
        pytest.param(200, b"[]", id="a list"),
        pytest.param(200, b'["result"]', id="a list of the word"),
        pytest.param(200, b'"a result"', id="a text with the word"),
        pytest.param(200, b"{}", id="undefined"),
        pytest.param(200, b'{"result": true}', id="a bare true"),
        pytest.param(200, b'{"result": {"allow": true}}', id="another shape"),
        pytest.param(200, b'{"result": {}, "result": {}}', id="duplicate member"),
        pytest.param(200, json.dumps({"result": GOOD | {"outcome": "allow"}}).encode(), id="unknown outcome"),
        pytest.param(200, json.dumps({"result": GOOD | {"policy_id": None}}).encode(), id="unnamed permit"),
        pytest.param(200, json.dumps({"result": GOOD | {"policy_version": ""}}).encode(), id="no version"),
        pytest.param(200, json.dumps({"result": GOOD | {"policy_version": 1}}).encode(), id="number as version"),
        pytest.param(200, json.dumps({"result": GOOD | {"row_filter": {}}}).encode(), id="unknown obligation"),
        pytest.param(
            200, json.dumps({"result": GOOD | {"obligations": {"rows": {}}}}).encode(), id="half an obligation"
        ),
        pytest.param(
            200,
            json.dumps(
                {"result": GOOD | {"obligations": {"rows": {"a.b": {"like": "%"}}, "columns": None, "masks": {}}}}
            ).encode(),
            id="unknown constraint",
        ),
        pytest.param(200, b'{"x": "' + b"a" * 300_000 + b'"}', id="too large"),
    ],
)
async def test_an_answer_that_is_not_a_decision_is_unavailable(status: int, reply: bytes) -> None:
    async with served(_says(status, reply)) as url:
        with pytest.raises(EvaluatorUnavailable):
            await _ask(url, 5)


async def test_members_that_opa_adds_beside_the_result_are_ignored() -> None:
    reply = json.dumps({"decision_id": "x", "metrics": {}, "result": GOOD}).encode()
    async with served(_says(200, reply)) as url:
        assert (await _ask(url)).policy_id == "P-1"


async def test_obligations_may_be_left_out_by_a_server_that_has_none() -> None:
    reply = json.dumps({"result": {"outcome": "permit", "policy_id": "P-7", "policy_version": "9"}}).encode()
    async with served(_says(200, reply)) as url:
        assert (await _ask(url)).policy_id == "P-7"


async def test_a_server_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)
    async with served(_decides(policies)) as url:
        evaluator = HttpEvaluator(url, 5)
        await evaluator.evaluate(make_question())
    with pytest.raises(EvaluatorUnavailable):
        await evaluator.evaluate(make_question())
    await evaluator.close()


def test_one_evaluator_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, TEXT)

    async def once() -> Outcome:
        async with served(_decides(policies)) as url:
            evaluator._url = url + DECISION_PATH
            outcome = (await evaluator.evaluate(make_question())).outcome
            await evaluator.close()
            return outcome

    evaluator = HttpEvaluator("http://127.0.0.1:1", 5)
    assert [asyncio.run(once()) for _ in range(2)] == [Outcome.PERMIT, Outcome.PERMIT]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1",
        "http://policy.example",
        "http://user:pw@127.0.0.1",
        "127.0.0.1:8802",
        "http://127.0.0.1/?a=1",
        "https://policy.example/#a",
        "https:///policy",
        "",
    ],
)
def test_an_address_that_cannot_be_trusted_is_refused_by_name(url: str) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_POLICY_URL"):
        HttpEvaluator(url)


def test_a_private_network_may_use_plain_http() -> None:
    HttpEvaluator("http://policy:8802", private_network=True)


async def test_an_answer_in_process_after_the_budget_is_thrown_away(tmp_path: Path) -> None:
    ticks = iter([0.0, 0.3])
    evaluator = InProcessEvaluator(make_policies(tmp_path, TEXT), 0.25, clock=lambda: next(ticks))
    with pytest.raises(EvaluatorTimeout):
        await evaluator.evaluate(make_question())


async def test_a_remembered_answer_is_for_the_same_principal_object_only(tmp_path: Path) -> None:
    evaluator = InProcessEvaluator(make_policies(tmp_path, TEXT), 5)
    first = await evaluator.evaluate(make_question())
    stripped = await evaluator.evaluate(make_question(principal=make_principal(entitlements={})))
    assert (first.outcome, stripped.outcome) == (Outcome.PERMIT, Outcome.NONE)


@pytest.mark.parametrize(
    "change",
    [{"capability": "compare"}, {"dataset": "trees"}, {"effect": "write"}, {"sensitivity": "public"}, {"tenant": "b"}],
)
async def test_what_a_policy_can_read_is_part_of_what_is_remembered(tmp_path: Path, change: dict[str, str]) -> None:
    text = """@id("P-1") permit (principal, action == Action::"read", resource == Dataset::"plants") when {
      context.effect == "read" && context.sensitivity == "internal" && context.tenant == "acme" };"""
    evaluator = InProcessEvaluator(make_policies(tmp_path, text), 5)
    principal = make_principal()
    raw = make_question(principal=principal).to_json()
    assert (await evaluator.evaluate(make_question(principal=principal))).outcome is Outcome.PERMIT
    parsed = PolicyRequest.from_json(raw | change)
    changed = PolicyRequest(
        principal, parsed.dataset, parsed.capability, parsed.effect, parsed.sensitivity, parsed.tenant, parsed.policy_id
    )
    assert (await evaluator.evaluate(changed)).outcome is Outcome.NONE


@pytest.mark.parametrize("change", [{"dataset": 1}, {"extra": 1}, {"principal": {}}, {"entitled": "yes"}])
def test_a_malformed_question_is_the_askers_fault(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        decision_document(make_policies(tmp_path, TEXT), make_question().to_json() | change)
    assert caught.value.category is Category.INVALID_INPUT


async def test_warming_a_server_that_is_away_is_no_fault() -> None:
    evaluator = HttpEvaluator("http://127.0.0.1:9", 0.25)
    await evaluator.warm()
    await evaluator.close()
