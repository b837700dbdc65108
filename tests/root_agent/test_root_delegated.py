"""A call that another agent completes: the root admits both, mints for both, and shows rows that prove both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task

from contract.call import Call
from contract.scope import Obligations, Sensitivity, parse_rows
from contract.verdict import Decision, NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor, Delegation
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest
from evidence.dsse import upstream_digest
from evidence.provenance import verify_provenance
from evidence.tree import verify_tree, walk
from grants.derive import derive
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from tests.root_agent.delegating_world import (
    CALL,
    LAB_DATASET,
    LAB_ID,
    TO_LAB,
    Change,
    Lab,
    delegate,
    delegating,
    honest,
    lab_answer,
    lab_chain,
    lab_operation,
    open_lab,
    passed_on,
)
from tests.root_agent.root_world import QUESTION, ROOT_ID, RootWorld, shipped_world
from tests.root_agent.scripted_remote import AGENT_ID, AgentServer, Arrived, rejected, shipped

BATCHES = "purification-batches"
PLAIN = {"dataset": BATCHES, "capability": "search", "arguments": {"query": "B001"}}


@pytest.fixture(scope="module")
def lab_server() -> Iterator[AgentServer]:
    server = AgentServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def lab(world: RootWorld, lab_server: AgentServer, tmp_path: Path) -> AsyncIterator[Lab]:
    opened = open_lab(world, lab_server, tmp_path)
    world.remote.script = honest(world, opened)
    yield opened
    opened.ledger.close()


@pytest.fixture
async def root(world: RootWorld, lab: Lab) -> AsyncIterator[RootAgent]:
    agent = RootAgent(world.service)
    yield agent
    await agent.close()


class Permitting:
    """Permits everything: of the lab's dataset under obligations, or it forbids that by a policy."""

    def __init__(self, obligations: Obligations | None = None, *, forbidden: str | None = None) -> None:
        self._lab = PolicyAnswer(
            Outcome.FORBID if forbidden else Outcome.PERMIT,
            forbidden or "BPD-DATA-014",
            "2026.1",
            obligations or Obligations(),
        )

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        return self._lab if request.dataset == LAB_DATASET else PolicyAnswer(Outcome.PERMIT, "BPD-DATA-014", "2026.1")

    def version(self) -> str:
        return "2026.1"


async def ask(root: RootAgent, world: RootWorld, who: str = "process_engineer", **wanted: Any) -> Answer:
    return await root.ask(world.token(who), **(wanted or {"call": CALL}))


def keys_of(world: RootWorld) -> dict[str, Any]:
    return {agent.id: agent.every_key for agent in world.service.trust.agents.values()}


@pytest.mark.parametrize("wanted", [{"call": CALL}, {"question": QUESTION}])
async def test_it_is_asked_like_any_other_capability(root: RootAgent, world: RootWorld, wanted: dict[str, Any]) -> None:
    view = to_json(await ask(root, world, **wanted))
    assert (view["verdict"], view["capability"], view["result"]["row_count"]) == ("GRANTED", "compare_batches", 2)


async def test_the_grant_names_each_dataset_its_agent_and_how_often_it_may_be_passed_on(
    root: RootAgent, world: RootWorld
) -> None:
    await ask(root, world)
    grant = world.grant(world.remote.arrived[0])
    assert {(s.dataset, *s.actions, *s.locations, s.revision) for s in grant.scopes} == {
        (BATCHES, "compare_batches", AGENT_ID, shipped(BATCHES).revision),
        (LAB_DATASET, "aggregate", LAB_ID, shipped(LAB_DATASET).revision),
    }


async def test_the_grant_of_a_plain_call_names_one_dataset_and_cannot_be_passed_on(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    world.remote.script = world.honest
    assert (await ask(root, world, call=PLAIN)).verdict.value == "GRANTED"
    arrived = world.remote.arrived[0]
    assert [scope.dataset for scope in world.grant(arrived).scopes] == [BATCHES]
    with pytest.raises(NotGranted) as stop:
        lab_chain(world, arrived, lab)
    assert stop.value.reason is Reason.GRANT_TOO_DEEP


async def test_the_second_agent_cannot_pass_on_what_it_got(root: RootAgent, world: RootWorld, lab: Lab) -> None:
    await ask(root, world)
    held = lab_chain(world, world.remote.arrived[0], lab)
    with pytest.raises(NotGranted) as stop:
        derive(held, lab.signer, audience=lab.entry, operation=lab_operation(), now=world.clock())
    assert stop.value.reason is Reason.GRANT_TOO_DEEP


async def test_one_root_token_and_one_transaction_join_both_grants(root: RootAgent, world: RootWorld, lab: Lab) -> None:
    await ask(root, world)
    arrived = world.remote.arrived[0]
    first, second = world.grant(arrived), passed_on(world, arrived, lab)
    assert (second.root_jti, second.txn, second.client) == (first.root_jti, first.txn, AGENT_ID)


async def test_the_policy_of_each_dataset_narrows_its_own_entry(root: RootAgent, world: RootWorld) -> None:
    constrained = {"chromatography_run.site": {"one_of": ["EU"]}}
    columns = frozenset({"chromatography_run.run_id"})

    world.service.world = shipped_world(Permitting(Obligations(rows=parse_rows(constrained), columns=columns)))
    await ask(root, world)
    scopes = {scope.dataset: scope for scope in world.grant(world.remote.arrived[0]).scopes}
    assert (scopes[LAB_DATASET].columns, set(scopes[LAB_DATASET].constraints)) == (columns, set(constrained))
    assert (scopes[BATCHES].columns, dict(scopes[BATCHES].constraints)) == (None, {})


async def test_who_may_not_use_what_completes_it_is_refused_by_the_root_before_anything_is_minted(
    root: RootAgent, world: RootWorld
) -> None:
    answer = await ask(root, world, "analyst")
    view = to_json(answer)
    assert (view["verdict"], view["reason"], view["decision"]["policy_id"]) == (
        "REFUSED",
        "INSUFFICIENT_PRIVILEGE",
        "AD-POL-005",
    )
    assert (answer.asking.plan, world.remote.arrived) == (None, [])
    assert f"{LAB_ID} for {LAB_DATASET} aggregate" in view["rationale"]


async def test_the_refusal_names_the_policy_that_forbids_what_completes_it(root: RootAgent, world: RootWorld) -> None:
    world.service.world = shipped_world(Permitting(forbidden="LAB-7"))
    answer = await ask(root, world)
    row = list(world.service.ledger.rows())[-1].cells
    assert (answer.decision.policy_id, row["policy_id"], row["verdict"], row["leaf_jti"]) == (
        "LAB-7",
        "LAB-7",
        "REFUSED",
        None,
    )


async def test_what_completes_it_is_refused_before_an_argument_is_asked_for(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world, "analyst", question="Compare the recovery of batch B001")
    assert answer.decision.reason is Reason.INSUFFICIENT_PRIVILEGE


async def test_an_agent_that_is_away_stops_the_call_that_it_completes_and_no_other(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    world.service.agents = (world.service.agents[0], (lab.entry, "http://127.0.0.1:9"))
    world.service.cards.forget(LAB_ID)
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_UNREACHABLE
    world.remote.script = world.honest
    assert (await ask(root, world, call=PLAIN)).verdict.value == "GRANTED"


async def test_an_agent_that_the_root_does_not_know_completes_nothing(root: RootAgent, world: RootWorld) -> None:
    delegate(world, TO_LAB.model_copy(update={"agent": "urn:dataset-agent:nobody"}))
    assert (await ask(root, world)).decision.reason is Reason.MISSING_DESCRIPTOR


async def test_a_capability_that_the_other_agent_does_not_offer_completes_nothing(
    root: RootAgent, world: RootWorld
) -> None:
    delegate(world, TO_LAB.model_copy(update={"capability": "calculate_yield"}))
    assert (await ask(root, world)).decision.reason is Reason.UNREGISTERED_CAPABILITY


async def test_a_decision_alone_makes_no_capability_that_no_card_offers(
    root: RootAgent, world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def granting(request: Any, evaluator: Any) -> Decision:
        return Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "whatever it is")

    monkeypatch.setattr("root_agent.hops.decide", granting)
    delegate(world, TO_LAB.model_copy(update={"capability": "calculate_yield"}))
    decision = (await ask(root, world)).decision
    assert decision.reason is Reason.UNREGISTERED_CAPABILITY
    assert decision.rationale.endswith("which it does not offer")


async def test_where_everything_offered_is_for_other_agents_nothing_can_be_asked(
    root: RootAgent, world: RootWorld
) -> None:
    world.remote.descriptors[:] = []
    world.remote.publish()
    decision = (await ask(root, world, question="search chromatography runs")).decision
    assert decision.reason is Reason.REMOTE_CARD_INVALID
    assert decision.rationale.endswith("it may be asked through others only")


@pytest.mark.parametrize("capability", ["compare_batches", "search"])
async def test_a_dataset_cannot_complete_itself_by_way_of_another(
    root: RootAgent, world: RootWorld, lab: Lab, capability: str
) -> None:
    back = Delegation(agent=AGENT_ID, dataset=BATCHES, capability=capability)
    lab.descriptors[0] = delegating(shipped(LAB_DATASET), "aggregate", back)
    lab.publish()
    assert (await ask(root, world)).decision.reason is Reason.DESCRIPTOR_INVALID


async def test_an_answer_is_at_least_as_sensitive_as_what_completes_it(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    described = shipped(LAB_DATASET)
    raised = tuple(
        item.model_copy(update={"sensitivity": Sensitivity.CONFIDENTIAL, "policy_id": "BPD-DATA-014"})
        for item in described.capabilities
    )
    lab.descriptors[0] = described.model_copy(update={"capabilities": raised})
    lab.publish()
    world.service.world = shipped_world(Permitting())
    assert (await ask(root, world)).decision.reason is Reason.DESCRIPTOR_INVALID


def layered(lab: Lab, count: int) -> None:
    """The lab's capability is completed by its next dataset, and so on; ``count`` datasets in all."""
    described = [
        shipped(LAB_DATASET).model_copy(update={"dataset": LAB_DATASET if n == 0 else f"layer-{n}"})
        for n in range(count)
    ]
    for n, descriptor in enumerate(described[:-1]):
        further = Delegation(agent=LAB_ID, dataset=described[n + 1].dataset, capability="aggregate")
        described[n] = delegating(descriptor, "aggregate", further)
    lab.descriptors[:] = described
    lab.publish()


async def test_a_call_is_completed_by_two_further_agents_at_most(root: RootAgent, world: RootWorld, lab: Lab) -> None:
    world.service.world = shipped_world(Permitting())
    layered(lab, 2)
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_PROVENANCE_INVALID  # admitted, and not proven
    assert len(world.grant(world.remote.arrived[0]).scopes) == 3
    world.service.cards.forget(LAB_ID)
    layered(lab, 3)
    assert (await ask(root, world)).decision.reason is Reason.GRANT_TOO_DEEP


@pytest.mark.parametrize("question", ["Aggregate resolution over runs", "search chromatography runs"])
async def test_what_only_other_agents_may_ask_is_no_answer_to_a_question(
    root: RootAgent, world: RootWorld, question: str
) -> None:
    world.remote.descriptors[1:] = []
    world.remote.publish()
    answer = await ask(root, world, question=question)
    assert (answer.verdict.value, answer.asking.plan) == ("INDETERMINATE", None)
    assert all(offer.agent_id == AGENT_ID for offer in answer.asking.candidates)


async def test_what_only_other_agents_may_ask_is_not_called_directly(root: RootAgent, world: RootWorld) -> None:
    world.remote.descriptors[1:] = []
    world.remote.publish()
    call = {"dataset": LAB_DATASET, "capability": "aggregate", "arguments": {"metric": "resolution"}}
    answer = await ask(root, world, call=call)
    assert (answer.decision.reason, world.remote.arrived) == (Reason.REMOTE_CARD_INVALID, [])
    assert "through others" in answer.decision.rationale


async def test_a_revision_that_is_stale_at_the_second_agent_is_read_again_and_asked_once_more(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    async def stale(arrived: Arrived) -> Task:
        fresh = shipped(LAB_DATASET).model_copy(update={"revision": "r2"})
        lab.descriptors[0] = fresh
        lab.publish()
        world.remote.script = honest(world, lab)
        return rejected("UNKNOWN_DATASET_REVISION", "INDETERMINATE")

    world.remote.script = stale
    view = to_json(await ask(root, world))
    revisions = [scope.revision for scope in world.grant(world.remote.arrived[-1]).scopes]
    assert (view["verdict"], view["attempts"], "r2" in revisions) == ("GRANTED", 2, True)


async def test_the_whole_tree_verifies_offline_from_what_the_root_relays(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world)
    body = answer.document.body if answer.document else b""
    relayed = to_json(answer)["provenance"]["relayed"]
    statement = verify_provenance(relayed, world.service.holder.public_key, body=body, agent_id=ROOT_ID)
    told = [
        (level, branch.statement.predicate.agent.id) for level, branch in walk(verify_tree(statement, keys_of(world)))
    ]
    assert told == [(1, AGENT_ID), (2, LAB_ID)]


async def test_the_envelope_of_the_asked_agent_carries_the_second_agents(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world)
    body = answer.document.body if answer.document else b""
    envelope = to_json(answer)["provenance"]["envelope"]
    statement = verify_provenance(envelope, world.remote.signer.public_key, body=body, agent_id=AGENT_ID)
    (branch,) = verify_tree(statement, keys_of(world))
    assert (branch.statement.predicate.agent.id, branch.statement.predicate.grant.client) == (LAB_ID, AGENT_ID)


async def test_the_roots_row_names_the_envelope_that_carries_it_all(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world)
    row = list(world.service.ledger.rows())[-1].cells
    assert row["upstream_digest"] == upstream_digest(to_json(answer)["provenance"]["envelope"])


async def without_rows(root: RootAgent, world: RootWorld) -> bool:
    view = to_json(await ask(root, world))
    return (view["reason"], view["result"], view["provenance"]) == ("REMOTE_PROVENANCE_INVALID", None, None)


async def test_an_answer_that_does_not_carry_what_completes_it_is_not_shown(root: RootAgent, world: RootWorld) -> None:
    world.remote.script = world.honest
    assert await without_rows(root, world)


async def test_an_answer_that_rests_on_more_than_was_admitted_is_not_shown(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    """The lab was asked twice, each time under a leaf of its own, and once was admitted."""

    async def embellished(arrived: Arrived) -> Task:
        twice = [lab_answer(world, lab, passed_on(world, arrived, lab)) for _ in range(2)]
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=twice)

    world.remote.script = embellished
    assert await without_rows(root, world)


async def test_a_plain_answer_that_rests_on_another_agents_is_not_shown(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    """Not even where both agents conspire, and the second signs that it was asked under this grant."""
    await ask(root, world)
    earlier = passed_on(world, world.remote.arrived[0], lab)

    async def conspiring(arrived: Arrived) -> Task:
        grant = world.grant(arrived)

        def under_this_grant(statement: dict[str, Any]) -> None:
            statement["predicate"]["grant"] |= {"root_jti": grant.root_jti, "txn": grant.txn}
            statement["predicate"]["invocation"]["trace_id"] = grant.rctx["trace_id"]

        theirs = lab_answer(world, lab, earlier, under_this_grant)
        return world.answer(grant, Call.parse(arrived.call), upstream=[theirs])

    world.remote.script = conspiring
    decision = (await ask(root, world, call=PLAIN)).decision
    assert (decision.reason, "another origin" in decision.rationale) == (Reason.REMOTE_PROVENANCE_INVALID, True)


async def test_an_admitted_answer_that_rests_on_one_more_is_not_shown(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    """The lab says that it asked itself, under one more leaf; everything is signed, and nobody admitted that."""

    def under_one_more_leaf(statement: dict[str, Any]) -> None:
        statement["predicate"]["grant"] |= {"client": LAB_ID, "jti": "jti-own", "leaf_digest": "0" * 64}

    async def further(arrived: Arrived) -> Task:
        grant = passed_on(world, arrived, lab)
        one_more = lab_answer(world, lab, grant, under_one_more_leaf)

        def uncached(statement: dict[str, Any]) -> None:
            statement["predicate"]["cache"] = {"outcome": "OFF", "used": False, "key": None}
            statement["predicate"]["execution"]["tool_origin"] = "A2A"
            statement["predicate"]["upstream"] = [one_more.model_dump(mode="json")]

        completed = lab_answer(world, lab, grant, uncached)
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=[completed])

    world.remote.script = further
    decision = (await ask(root, world)).decision
    assert (decision.reason, "was not admitted" in decision.rationale) == (Reason.REMOTE_PROVENANCE_INVALID, True)


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        (("authorization", "sensitivity"), "public", "another sensitivity"),
        (("authorization", "sensitivity"), "confidential", "another sensitivity"),
        (("execution", "tool_origin"), "MCP", "another origin"),
    ],
)
async def test_an_admitted_answer_is_as_its_card_says(
    root: RootAgent, world: RootWorld, lab: Lab, member: tuple[str, str], value: str, said: str
) -> None:
    def change(statement: dict[str, Any]) -> None:
        statement["predicate"][member[0]][member[1]] = value

    async def script(arrived: Arrived) -> Task:
        completed = lab_answer(world, lab, passed_on(world, arrived, lab), change)
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=[completed])

    world.remote.script = script
    decision = (await ask(root, world)).decision
    assert (decision.reason, said in decision.rationale) == (Reason.REMOTE_PROVENANCE_INVALID, True)


async def test_an_answer_with_the_branch_of_an_earlier_asking_is_not_shown(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    await ask(root, world)
    earlier = lab_answer(world, lab, passed_on(world, world.remote.arrived[0], lab))

    async def replayed(arrived: Arrived) -> Task:
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=[earlier])

    world.remote.script = replayed
    assert await without_rows(root, world)


def in_dataset(member: str, value: str) -> Change:
    def change(statement: dict[str, Any]) -> None:
        statement["predicate"]["dataset"][member] = value

    return change


def other_capability(statement: dict[str, Any]) -> None:
    statement["predicate"]["operation"]["capability"] = "search"


def own_grant(statement: dict[str, Any]) -> None:
    statement["predicate"]["grant"]["client"] = ROOT_ID


@pytest.mark.parametrize(
    "change",
    [
        in_dataset("dataset_id", "clinical-private"),
        in_dataset("dataset_version", "9.9"),
        in_dataset("revision", "r9"),
        in_dataset("schema_version", "9"),
        other_capability,
        own_grant,
    ],
)
async def test_an_answer_completed_from_another_than_the_admitted_one_is_not_shown(
    root: RootAgent, world: RootWorld, lab: Lab, change: Change
) -> None:
    async def other(arrived: Arrived) -> Task:
        completed = lab_answer(world, lab, passed_on(world, arrived, lab), change)
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=[completed])

    world.remote.script = other
    assert await without_rows(root, world)


async def test_an_answer_of_more_columns_than_the_second_agent_was_granted_is_not_shown(
    root: RootAgent, world: RootWorld, lab: Lab
) -> None:
    def wider(statement: dict[str, Any]) -> None:
        statement["predicate"]["authorization"]["columns"] = ["peak_table.peak_no", "peak_table.run_id"]

    async def answered(arrived: Arrived) -> Task:
        completed = lab_answer(world, lab, passed_on(world, arrived, lab), wider)
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=[completed])

    world.service.world = shipped_world(Permitting(Obligations(columns=frozenset({"peak_table.run_id"}))))
    world.remote.script = answered
    assert await without_rows(root, world)


async def test_an_answer_of_another_trace_is_not_shown(root: RootAgent, world: RootWorld) -> None:
    def elsewhere(statement: dict[str, Any]) -> None:
        statement["predicate"]["invocation"]["trace_id"] = "f" * 32

    async def answered(arrived: Arrived) -> Task:
        return world.answer(world.grant(arrived), Call.parse(arrived.call), change=elsewhere)

    delegate(world, TO_LAB)
    world.remote.script = answered
    assert (await ask(root, world, call=PLAIN)).decision.reason is Reason.REMOTE_PROVENANCE_INVALID


async def test_an_agent_whose_key_was_replaced_completes_nothing(root: RootAgent, world: RootWorld, lab: Lab) -> None:
    """A retired key signs for whoever reads offline; what arrives is believed by the present one alone."""
    trust = world.service.trust

    async def rotated(arrived: Arrived) -> Task:
        task = await honest(world, lab)(arrived)
        retired = type(lab.entry)(LAB_ID, lab.entry.url, world.identity.public_key, (lab.entry.key,))
        world.service.trust = type(trust)(
            trust.issuers, MappingProxyType({**trust.agents, LAB_ID: retired}), trust.policy_versions
        )
        return task

    world.remote.script = rotated
    assert await without_rows(root, world)


def test_the_descriptor_of_the_scripted_agent_is_one_that_could_be_published() -> None:
    raw = delegating(shipped(BATCHES), "compare_batches", TO_LAB).to_json()
    assert DatasetDescriptor.model_validate(raw).capability("compare_batches")
