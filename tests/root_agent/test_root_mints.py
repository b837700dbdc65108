"""What is not granted mints nothing: the issuer signs no token, nothing is planned, and no door is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from contract.signing import PublicKey
from contract.verdict import Reason, Verdict
from control_plane.evaluator import EvaluatorTimeout, EvaluatorUnavailable
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from tests.root_agent.root_world import QUESTION, RootWorld, shipped_world
from tests.root_agent.scripted_remote import TestSigner

BATCHES, CLINICAL = "purification-batches", "clinical-private"


@dataclass
class Counting:
    """The issuer's key, and how often it signed."""

    inner: TestSigner
    signed: list[bytes] = field(default_factory=list)

    @property
    def public_key(self) -> PublicKey:
        return self.inner.public_key

    def sign(self, message: bytes) -> bytes:
        self.signed.append(message)
        return self.inner.sign(message)


class Failing:
    """An evaluator that is away or late."""

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    async def evaluate(self, _: Any) -> Any:
        raise self.fault

    def version(self) -> str:
        return "2026.1"


def call(dataset: str, capability: str, **arguments: str) -> dict[str, Any]:
    return {"dataset": dataset, "capability": capability, "arguments": arguments}


COMPARE = call(BATCHES, "compare_batches", batch_a="B001", batch_b="B002")


async def asked(world: RootWorld, who: str, **wanted: Any) -> tuple[Answer, Counting]:
    issuer = world.service.issuer
    assert isinstance(issuer, TestSigner)
    counting = Counting(issuer)
    world.service.issuer = counting
    root = RootAgent(world.service)
    answer = await root.ask(world.token(who), **wanted)
    await root.close()
    return answer, counting


def assert_no_authority(answer: Answer, issuer: Counting, world: RootWorld) -> None:
    grant = answer.asking.plan
    assert grant is None
    view = to_json(answer)
    assert view["tool_calls"] == view["mcp_calls"] == view["a2a_calls"] == []
    assert (issuer.signed, answer.asking.sent, world.remote.arrived, view["result"]) == ([], None, [], None)
    assert not {"plan", "execute", "validate"} & set(view["visited_nodes"])


async def test_what_is_granted_mints_exactly_one_grant(world: RootWorld) -> None:
    """Else the others would show nothing."""
    answer, issuer = await asked(world, "process_engineer", call=COMPARE)
    assert (answer.verdict, len(issuer.signed), answer.asking.plan is None) == (Verdict.GRANTED, 1, False)


@pytest.mark.parametrize(
    ("who", "wanted", "reason"),
    [
        ("external_auditor", {"call": COMPARE}, Reason.INSUFFICIENT_PRIVILEGE),
        ("external_auditor", {"question": QUESTION}, Reason.INSUFFICIENT_PRIVILEGE),
        ("external_auditor", {"call": call(BATCHES, "search", query="B001")}, Reason.CLASSIFICATION_EXCEEDS_CLEARANCE),
        ("process_engineer", {"call": call(BATCHES, "bypass_governance")}, Reason.PROHIBITED_OPERATION),
        ("process_engineer", {"call": call(BATCHES, "no_such_thing")}, Reason.UNREGISTERED_CAPABILITY),
        ("process_engineer", {"call": COMPARE, "schema_version": "0"}, Reason.SCHEMA_VERSION_MISMATCH),
        ("process_engineer", {"call": COMPARE, "max_age_s": 1}, Reason.FRESHNESS_UNSATISFIABLE),
    ],
)
async def test_refusal_mints_no_grant(world: RootWorld, who: str, wanted: dict[str, Any], reason: Reason) -> None:
    answer, issuer = await asked(world, who, **wanted)
    assert (answer.verdict, answer.decision.reason) == (Verdict.REFUSED, reason)
    assert answer.decision.policy_id
    assert_no_authority(answer, issuer, world)


@pytest.mark.parametrize(
    ("wanted", "fault", "reason"),
    [
        ({"call": COMPARE}, EvaluatorTimeout("late"), Reason.EVALUATOR_TIMEOUT),
        ({"call": COMPARE}, EvaluatorUnavailable("away"), Reason.EVALUATOR_UNAVAILABLE),
        ({"call": COMPARE}, RuntimeError("a bug"), Reason.EVALUATOR_UNAVAILABLE),
        ({"question": QUESTION}, EvaluatorUnavailable("away"), Reason.EVALUATOR_UNAVAILABLE),
        ({"call": call("no-such-dataset", "search")}, None, Reason.MISSING_DESCRIPTOR),
        ({"question": "something that nobody reads"}, None, Reason.INTENT_NOT_UNDERSTOOD),
    ],
)
async def test_indeterminate_mints_no_grant(
    world: RootWorld, wanted: dict[str, Any], fault: Exception | None, reason: Reason
) -> None:
    if fault is not None:
        world.service.world = shipped_world(Failing(fault))
    answer, issuer = await asked(world, "process_engineer", **wanted)
    assert (answer.verdict, answer.decision.reason, answer.decision.policy_id) == (Verdict.INDETERMINATE, reason, None)
    assert answer.decision.rationale
    assert_no_authority(answer, issuer, world)
