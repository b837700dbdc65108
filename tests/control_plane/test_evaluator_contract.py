"""One table of decisions holds whoever evaluates the policies: this process, a policy server, or a company's own OPA."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from contract.scope import Obligations
from contract.verdict import Decision, Reason, Verdict
from control_plane.admission import AdmissionRequest, decide
from control_plane.evaluator import Evaluator, HttpEvaluator, InProcessEvaluator
from dataset_agent.policy_server import PolicyFile, create_policy_app
from tests.control_plane.control_plane_world import (
    make_descriptor,
    make_principal,
    make_request,
    raw_capability,
    write_policies,
)
from tests.control_plane.policy_servers import Answerer, listening, served

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "opa.md").read_text(encoding="utf-8")
POLICIES: Final = """
@id("P-1") @mask("{\\"plants.id\\": \\"hash\\"}")
permit (principal, action == Action::"read", resource) when { context.entitled };
@id("P-5") @columns("[\\"plants.id\\"]")
permit (principal, action == Action::"read", resource) when { context.entitled && principal.tenant == "acme" };
@id("P-2") forbid (principal, action, resource) when { principal.principal_class == "stranger" };
@id("P-3") permit (principal, action == Action::"count", resource) when { principal.attributes.level > 2 };
@id("P-4") @rows("{\\"plants.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")
permit (principal, action == Action::"compare", resource);
"""


def _person(**changes: Any) -> AdmissionRequest:
    return make_request(principal=make_principal(**changes))


def _about(name: str = "read", person: dict[str, Any] | None = None, **capability: Any) -> AdmissionRequest:
    governed = [capability["policy_id"]] if "policy_id" in capability else []
    descriptor = make_descriptor(raw_capability(name, **capability), policies=governed)
    return make_request(descriptor=descriptor, capability=name, principal=make_principal(**(person or {})))


#: Every way in which a decision can end that policies are asked about, and some that come before and after.
TABLE: Final[dict[str, tuple[AdmissionRequest, Reason, str | None]]] = {
    "permitted": (make_request(), Reason.PRINCIPAL_AUTHORIZED, "P-1"),
    "governed by another permit": (_about(policy_id="P-5"), Reason.PRINCIPAL_AUTHORIZED, "P-5"),
    "governed by one that does not permit": (_about(policy_id="P-3"), Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005"),
    "not entitled": (_person(entitlements={}), Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005"),
    "forbidden": (_person(principal_class="stranger"), Reason.INSUFFICIENT_PRIVILEGE, "P-2"),
    "of another tenant": (_person(tenant="other"), Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005"),
    "an attribute": (_about("count", {"attributes": {"level": 3}}), Reason.PRINCIPAL_AUTHORIZED, "P-3"),
    "an attribute too low": (_about("count", {"attributes": {"level": 2}}), Reason.INSUFFICIENT_PRIVILEGE, "AD-POL-005"),
    "an attribute missing": (_about("count"), Reason.MISSING_PRINCIPAL_ATTRIBUTE, None),
    "an attribute of another type": (_about("count", {"attributes": {"level": "3"}}), Reason.EVALUATOR_UNAVAILABLE, None),
    "a bound attribute": (_about("compare", {"attributes": {"sites": ("a",)}}), Reason.PRINCIPAL_AUTHORIZED, "P-4"),
    "a bound attribute missing": (_about("compare"), Reason.MISSING_PRINCIPAL_ATTRIBUTE, None),
    "an integer that is none of Cedar's": (_person(attributes={"level": 2**70}), Reason.EVALUATOR_UNAVAILABLE, None),
    "over clearance": (_about(sensitivity="restricted", policy_id="P-1"), Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, "AD-POL-006"),
    "an effect not held": (_about(effect="write"), Reason.EFFECT_NOT_PERMITTED, "AD-POL-009"),
    "too old": (make_request(max_age_s=1.0), Reason.FRESHNESS_UNSATISFIABLE, "AD-POL-008"),
    "not retained": (_about(retention_requirement={"days": 1}), Reason.INSUFFICIENT_RETENTION, None),
    "under review": (_about(requires_review=True), Reason.REVIEW_REQUIRED, "AD-POL-010"),
    "nobody": (make_request(principal=None), Reason.UNKNOWN_PRINCIPAL, None),
    "no dataset": (make_request(descriptor=None), Reason.MISSING_DESCRIPTOR, None),
    "another revision": (make_request(stated_revision="r0"), Reason.UNKNOWN_DATASET_REVISION, None),
}  # fmt: skip


@asynccontextmanager
async def evaluating(kind: str, datasets: Path) -> AsyncIterator[Evaluator]:
    """The evaluator of a datasets folder: in this process, or behind the policy server that ships."""
    file = PolicyFile(datasets)
    if kind == "in process":
        yield InProcessEvaluator(file.policies, 5)
        return
    async with listening(create_policy_app(file)) as url:
        evaluator = HttpEvaluator(url, 5)
        yield evaluator
        await evaluator.close()


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    write_policies(tmp_path / "policies", POLICIES)
    return tmp_path


@pytest.mark.parametrize("kind", ["in process", "policy server"])
class TestTheContractOfEvaluators:
    async def test_every_line_of_the_table_is_decided_as_it_says(self, kind: str, datasets: Path) -> None:
        async with evaluating(kind, datasets) as evaluator:
            decided = {name: await decide(request, evaluator) for name, (request, _, _) in TABLE.items()}
        told = {name: (decision.reason, decision.policy_id) for name, decision in decided.items()}
        assert told == {name: (reason, policy_id) for name, (_, reason, policy_id) in TABLE.items()}

    async def test_an_indeterminate_decision_names_no_policy_and_has_a_rationale(
        self, kind: str, datasets: Path
    ) -> None:
        async with evaluating(kind, datasets) as evaluator:
            decided = [await decide(request, evaluator) for request, _, _ in TABLE.values()]
        unknown = [decision for decision in decided if decision.verdict is Verdict.INDETERMINATE]
        assert {decision.policy_id for decision in unknown} == {None}
        assert all(decision.rationale for decision in unknown)
        assert len(unknown) == 8

    async def test_what_is_not_granted_carries_no_obligation(self, kind: str, datasets: Path) -> None:
        async with evaluating(kind, datasets) as evaluator:
            decided = [await decide(request, evaluator) for request, _, _ in TABLE.values()]
        held = [decision for decision in decided if decision.obligations != Obligations()]
        assert {decision.verdict for decision in held} == {Verdict.GRANTED}

    async def test_the_obligations_of_two_permits_hold_together(self, kind: str, datasets: Path) -> None:
        async with evaluating(kind, datasets) as evaluator:
            decision = await decide(make_request(), evaluator)
        assert decision.obligations.to_json() == {"rows": {}, "columns": ["plants.id"], "masks": {"plants.id": "hash"}}

    async def test_the_version_of_the_policies_is_on_every_decision(self, kind: str, datasets: Path) -> None:
        async with evaluating(kind, datasets) as evaluator:
            decided = [await decide(request, evaluator) for request, _, _ in TABLE.values()]
            assert evaluator.version() == "2026.09.01"
        assert {decision.policy_version for decision in decided} == {"2026.09.01"}

    async def test_equal_questions_are_decided_alike(self, kind: str, datasets: Path) -> None:
        async with evaluating(kind, datasets) as evaluator:
            for request, _, _ in TABLE.values():
                assert await decide(request, evaluator) == await decide(request, evaluator)


def _says(status: int, reply: bytes) -> Answerer:
    async def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        return status, reply

    return answer


async def _decided(url: str, budget: float = 5) -> Decision:
    evaluator = HttpEvaluator(url, budget)
    try:
        return await decide(make_request(), evaluator)
    finally:
        await evaluator.close()


def _unknown(decision: Decision) -> tuple[Verdict, Reason, str | None, Obligations]:
    return decision.verdict, decision.reason, decision.policy_id, decision.obligations


UNAVAILABLE: Final = (Verdict.INDETERMINATE, Reason.EVALUATOR_UNAVAILABLE, None, Obligations())
LATE: Final = (Verdict.INDETERMINATE, Reason.EVALUATOR_TIMEOUT, None, Obligations())


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        pytest.param(200, b"{}", id="undefined"),
        pytest.param(200, b'{"result": true}', id="a bare true"),
        pytest.param(200, b'{"result": {"allow": true, "policy_id": "P-1"}}', id="another shape"),
        pytest.param(200, b"<html>", id="garbage"),
        pytest.param(200, b"\xff\xfe", id="no text"),
        pytest.param(200, b"", id="nothing"),
        pytest.param(404, b"{}", id="no such document"),
        pytest.param(500, b'{"result": {"outcome": "permit", "policy_id": "P-1", "policy_version": "1"}}', id="fails"),
        pytest.param(
            200, b'{"result": {"outcome": "error", "policy_id": null, "policy_version": "1"}}', id="says that it failed"
        ),
    ],
)
async def test_a_server_that_decides_nothing_is_unknown_authority(status: int, reply: bytes) -> None:
    async with served(_says(status, reply)) as url:
        assert _unknown(await _decided(url)) == UNAVAILABLE


async def test_a_server_that_is_stopped_is_unknown_authority(datasets: Path) -> None:
    async with listening(create_policy_app(PolicyFile(datasets))) as url:
        evaluator = HttpEvaluator(url, 5)
        assert (await decide(make_request(), evaluator)).verdict is Verdict.GRANTED
    assert _unknown(await decide(make_request(), evaluator)) == UNAVAILABLE
    await evaluator.close()


async def test_a_server_that_never_was_is_unknown_authority() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert _unknown(await _decided(f"http://127.0.0.1:{nobody.getsockname()[1]}")) == UNAVAILABLE


async def test_a_server_that_is_late_is_unknown_authority() -> None:
    never = asyncio.Event()

    async def answer(body: dict[str, Any]) -> tuple[int, bytes]:
        await never.wait()
        return 200, b"{}"

    async with served(answer) as url:
        assert _unknown(await _decided(url, 0.05)) == LATE
        never.set()


async def test_late_in_process_is_as_late_as_over_http(datasets: Path) -> None:
    ticks = iter([0.0, 0.3])
    evaluator = InProcessEvaluator(PolicyFile(datasets).policies, 0.25, clock=lambda: next(ticks))
    assert _unknown(await decide(make_request(), evaluator)) == LATE


def skeleton(question: dict[str, Any]) -> dict[str, Any]:
    """The Rego of docs/opa.md in Python, line by line."""
    principal, version = question["principal"], "2026.10.01"
    is_tank_call = (question["dataset"], question["capability"]) == ("tank-levels", "mean_level")
    reads = {"sites"} if is_tank_call else set()
    if missing := sorted(reads - principal["attributes"].keys()):
        return {"outcome": "missing_attribute", "policy_id": None, "policy_version": version, "attributes": missing}
    if principal["principal_class"] == "contractor":
        return {"outcome": "forbid", "policy_id": "ACME-TANK-009", "policy_version": version}
    if is_tank_call and question["entitled"]:
        rows = {"tank_level.site": {"one_of": principal["attributes"]["sites"]}}
        demands = {"rows": rows, "columns": None, "masks": {"tank_level.operator": "hash"}}
        return {
            "outcome": "permit",
            "policy_id": "ACME-TANK-001",
            "policy_version": version,
            "obligations": demands,
        }
    return {"outcome": "none", "policy_id": None, "policy_version": version}


async def _opa(body: dict[str, Any]) -> tuple[int, bytes]:
    return 200, json.dumps({"decision_id": "x", "result": skeleton(body["input"])}).encode()


def _documented() -> list[tuple[str, str, str | None]]:
    section = PAGE.partition("It decides so")[2]
    rows = re.findall(r"^\| ([^|]+) \| `(\w+)` \| ([\w-]+) \|$", section, re.MULTILINE)
    return [(changed, outcome, None if policy_id == "null" else policy_id) for changed, outcome, policy_id in rows]


def _tank(changed: str) -> AdmissionRequest:
    person: dict[str, Any] = {
        "entitlements": {"tank-levels": frozenset({"mean_level"})},
        "attributes": {"sites": ("Lyon",)},
    }
    if "`entitled` false" in changed:
        person["entitlements"] = {}
    if "`attributes` empty" in changed:
        person["attributes"] = {}
    if "contractor" in changed:
        person["principal_class"] = "contractor"
    dataset = "other" if "`dataset` other" in changed else "tank-levels"
    capability = raw_capability("mean_level", policy_id="ACME-TANK-001")
    descriptor = make_descriptor(capability, dataset=dataset, policies=["ACME-TANK-001"])
    return make_request(
        principal=make_principal(**person), dataset=dataset, capability="mean_level", descriptor=descriptor
    )


MEANS: Final = {
    "permit": Reason.PRINCIPAL_AUTHORIZED,
    "forbid": Reason.INSUFFICIENT_PRIVILEGE,
    "none": Reason.INSUFFICIENT_PRIVILEGE,
    "missing_attribute": Reason.MISSING_PRINCIPAL_ATTRIBUTE,
}


async def test_a_company_s_own_server_decides_as_its_page_says() -> None:
    documented = _documented()
    assert len(documented) == 6
    async with served(_opa) as url:
        evaluator = HttpEvaluator(url, 5)
        for changed, outcome, policy_id in documented:
            decision = await decide(_tank(changed), evaluator)
            named = "AD-POL-005" if outcome == "none" else policy_id
            assert (decision.reason, decision.policy_id) == (MEANS[outcome], named), changed
            assert decision.policy_version == "2026.10.01"
        granted = await decide(_tank("nothing"), evaluator)
        await evaluator.close()
    assert granted.obligations.to_json() == {
        "rows": {"tank_level.site": {"one_of": ["Lyon"]}},
        "columns": None,
        "masks": {"tank_level.operator": "hash"},
    }


def test_the_rego_of_the_page_has_every_policy_and_outcome_of_its_table() -> None:
    rego = re.search(r"^```rego\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert rego is not None
    assert "package dataset_agent" in rego[1]
    for _, outcome, policy_id in _documented():
        assert f'"{outcome}"' in rego[1]
        assert policy_id is None or f'"{policy_id}"' in rego[1]
