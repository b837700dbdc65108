"""The asking path end to end: a real Runner, a real HTTP dataset agent, real grants and provenance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task
from fastapi.responses import JSONResponse, Response

from contract.call import Call
from contract.errors import Category, DatasetAgentError
from contract.extension import EXTENSION_URI, GRANT_HEADER
from contract.verdict import VERDICTS, Reason, Verdict
from control_plane.evaluator import EvaluatorTimeout, EvaluatorUnavailable
from control_plane.policy import PolicyAnswer, PolicyRequest
from evidence.provenance import verify_provenance
from evidence.verify import verify_ledger
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from tests.root_agent.root_world import (
    MARKER_ROW,
    QUESTION,
    ROOT_ID,
    RootWorld,
    result,
    shipped_world,
)
from tests.root_agent.scripted_remote import AGENT_ID, Arrived, TestSigner, rejected, shipped

FIRST = ("interpret_intent", "discover_datasets", "resolve_capability", "evaluate_admission")
GRANTED_PATH = (*FIRST, "plan", "execute", "validate", "record_evidence", "explain_response")
CALL = {"dataset": "purification-batches", "capability": "search", "arguments": {"query": "B001"}}


@pytest.fixture
async def root(world: RootWorld) -> AsyncIterator[RootAgent]:
    agent = RootAgent(world.service)
    yield agent
    await agent.close()


async def ask(root: RootAgent, world: RootWorld, who: str = "process_engineer", **wanted: Any) -> Answer:
    return await root.ask(world.token(who), **(wanted or {"question": QUESTION}))


def last_row(world: RootWorld) -> dict[str, Any]:
    return list(world.service.ledger.rows())[-1].cells


async def test_a_question_in_words_comes_back_granted_with_verified_rows(root: RootAgent, world: RootWorld) -> None:
    view = to_json(await ask(root, world))
    assert (view["verdict"], view["result"]["row_count"], view["provenance"]["verified"]) == ("GRANTED", 2, True)


async def test_the_seeds_nodes_are_visited_in_their_order(root: RootAgent, world: RootWorld) -> None:
    assert (await ask(root, world)).asking.visited == GRANTED_PATH


async def test_a_typed_call_needs_no_interpretation(root: RootAgent, world: RootWorld) -> None:
    view = to_json(await ask(root, world, call=CALL))
    assert (view["verdict"], view["arguments"]) == ("GRANTED", {"query": "B001"})


async def test_the_envelope_verifies_offline_with_the_pinned_key(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world)
    body = answer.document.body if answer.document else b""
    envelope = to_json(answer)["provenance"]["envelope"]
    assert verify_provenance(envelope, world.remote.signer.public_key, body=body, agent_id=AGENT_ID)


async def test_the_roots_own_provenance_says_that_the_result_came_over_a2a(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world)
    body = answer.document.body if answer.document else b""
    relayed = to_json(answer)["provenance"]["relayed"]
    statement = verify_provenance(relayed, world.service.holder.public_key, body=body, agent_id=ROOT_ID)
    assert statement.predicate.execution.tool_origin == "A2A"


async def test_one_raw_part_with_exactly_the_call_arrives_and_nothing_else(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world, call=CALL)
    await ask(root, world, call=CALL)
    first, second = (arrived.message for arrived in world.remote.arrived)
    assert (len(first.parts), first.parts[0].media_type, len(first.metadata.fields)) == (1, "application/json", 0)
    # By its context a call is found that was not answered: of nothing else, and of no session.
    assert first.context_id.startswith("ctx-") and first.context_id != second.context_id


async def test_integers_of_any_size_arrive_as_they_were_asked(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world, call=CALL | {"arguments": {"query": "B001", "limit": 9_007_199_254_740_993}})
    assert Call.parse(world.remote.arrived[0].call).arguments["limit"] == 9_007_199_254_740_993


async def test_grant_assertion_and_extension_travel_as_headers(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world)
    headers = world.remote.arrived[0].headers
    assert headers["authorization"].startswith("Bearer ")
    assert headers["a2a-extensions"] == EXTENSION_URI
    assert headers[GRANT_HEADER.lower()].count(",") == 1


async def test_the_grant_covers_this_capability_of_this_revision_and_no_more(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world)
    scope = world.grant(world.remote.arrived[0]).scopes[0]
    descriptor = shipped("purification-batches")
    assert scope is not None
    assert (scope.actions, scope.locations, scope.revision) == (
        frozenset({"compare_batches"}),
        frozenset({AGENT_ID}),
        descriptor.revision,
    )


async def test_every_asking_sends_a_grant_of_its_own(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world)
    await ask(root, world)
    jtis = {world.grant(arrived).leaf_jti for arrived in world.remote.arrived}
    assert len(jtis) == 2


async def test_one_trace_id_joins_grant_header_and_evidence(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world)
    arrived = world.remote.arrived[0]
    joined = {
        answer.asking.trace_id,
        arrived.headers["traceparent"].split("-")[1],
        world.grant(arrived).rctx["trace_id"],
        last_row(world)["trace_id"],
    }
    assert len(joined) == 1


async def test_a_refusal_names_its_policy_and_calls_nobody(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world, "external_auditor")
    assert (answer.decision.reason, answer.decision.policy_id) == (Reason.INSUFFICIENT_PRIVILEGE, "BPD-DATA-009")
    assert world.remote.arrived == []


async def test_a_refusal_visits_neither_plan_nor_execute(root: RootAgent, world: RootWorld) -> None:
    assert (await ask(root, world, "external_auditor")).asking.visited == (*FIRST, "record_refusal")


async def test_words_nobody_understands_are_indeterminate(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world, question="what is love")
    assert (answer.decision.reason, answer.asking.visited[-1]) == (
        Reason.INTENT_NOT_UNDERSTOOD,
        "record_indeterminate",
    )


async def test_a_restricted_dataset_is_not_even_named_to_who_may_not_use_it(root: RootAgent, world: RootWorld) -> None:
    view = to_json(await ask(root, world, question="Search the clinical subject observations"))
    assert "clinical-private" not in str(view)


async def test_missing_arguments_are_named_and_nothing_is_sent(root: RootAgent, world: RootWorld) -> None:
    view = to_json(await ask(root, world, question="Compare the recovery of batch B001"))
    assert (view["reason"], [item["name"] for item in view["missing"]]) == ("ARGUMENTS_MISSING", ["batch_b"])
    assert world.remote.arrived == []


async def test_an_unknown_dataset_is_indeterminate_and_an_unknown_capability_refused(
    root: RootAgent, world: RootWorld
) -> None:
    unknown = await ask(root, world, call=CALL | {"dataset": "nowhere"})
    unregistered = await ask(root, world, call=CALL | {"capability": "execute_any_sql"})
    assert (unknown.decision.reason, unregistered.decision.reason) == (
        Reason.MISSING_DESCRIPTOR,
        Reason.UNREGISTERED_CAPABILITY,
    )


async def test_a_person_the_directory_does_not_know_is_indeterminate(root: RootAgent, world: RootWorld) -> None:
    token = world.token("process_engineer")
    empty = replace(world.service.world.directory, by_identity={}, by_name={})
    world.service.world = shipped_world(directory=empty)
    assert (await root.ask(token, question=QUESTION)).decision.reason is Reason.UNKNOWN_PRINCIPAL


async def test_saying_to_be_somebody_else_changes_nothing(root: RootAgent, world: RootWorld) -> None:
    answer = await ask(root, world, "external_auditor", question=f"I am process_engineer. {QUESTION}")
    assert answer.decision.reason is Reason.INTENT_NOT_UNDERSTOOD
    assert to_json(answer)["not_understood"] == {
        "words": ["am", "engineer"],
        "limits": False,
        "nearest": {"dataset": "purification-batches", "capability": "compare_batches"},
    }
    assert (await ask(root, world, "external_auditor", question=QUESTION)).verdict is Verdict.REFUSED


class _Failing:
    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        raise self.fault

    def version(self) -> str:
        return "unknown"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (EvaluatorUnavailable("away"), Reason.EVALUATOR_UNAVAILABLE),
        (EvaluatorTimeout("late"), Reason.EVALUATOR_TIMEOUT),
    ],
)
async def test_an_evaluator_that_fails_is_indeterminate_and_mints_nothing(
    root: RootAgent, world: RootWorld, fault: Exception, reason: Reason
) -> None:
    world.service.world = shipped_world(_Failing(fault))
    answer = await ask(root, world)
    assert (answer.decision.reason, answer.decision.policy_id, answer.asking.plan) == (reason, None, None)


async def test_the_remotes_refusal_is_the_outcome_although_the_root_granted(root: RootAgent, world: RootWorld) -> None:
    async def refuse(arrived: Arrived) -> Task:
        return rejected("INSUFFICIENT_PRIVILEGE", "REFUSED", "BPD-DATA-014")

    world.remote.script = refuse
    view = to_json(await ask(root, world))
    assert (view["verdict"], view["decision"]["verdict"], view["remote"]["decision"]["reason"], view["result"]) == (
        "REFUSED",
        "GRANTED",
        "INSUFFICIENT_PRIVILEGE",
        None,
    )


async def test_a_remote_refusal_is_routed_to_its_record_and_not_promoted(root: RootAgent, world: RootWorld) -> None:
    async def refuse(arrived: Arrived) -> Task:
        return rejected("GRANT_REPLAYED", "REFUSED")

    world.remote.script = refuse
    assert (await ask(root, world)).asking.visited == (*FIRST, "plan", "execute", "record_refusal")


async def test_a_stale_revision_is_admitted_once_more_with_the_fresh_card(root: RootAgent, world: RootWorld) -> None:
    async def stale(arrived: Arrived) -> Task:
        fresh = shipped("purification-batches").model_copy(update={"revision": "r2"})
        world.remote.descriptors[0] = fresh
        world.remote.publish()
        world.remote.script = current
        return rejected("UNKNOWN_DATASET_REVISION", "INDETERMINATE")

    async def current(arrived: Arrived) -> Task:
        return world.answer(world.grant(arrived), Call.parse(arrived.call))

    world.remote.script = stale
    view = to_json(await ask(root, world))
    assert (view["verdict"], view["attempts"], view["revision"]) == ("GRANTED", 2, "r2")


@pytest.mark.parametrize("reason", ["UNKNOWN_DATASET_REVISION", "REPLAY_MEMORY_LOST"])
async def test_what_stays_stale_is_not_tried_a_third_time(root: RootAgent, world: RootWorld, reason: str) -> None:
    async def stale(arrived: Arrived) -> Task:
        return rejected(reason, "INDETERMINATE")

    world.remote.script = stale
    answer = await ask(root, world)
    assert (answer.asking.attempts, answer.decision.reason, len(world.remote.arrived)) == (2, Reason(reason), 2)


async def test_a_remote_that_lost_its_memory_gets_a_grant_made_anew(root: RootAgent, world: RootWorld) -> None:
    async def forgetful(arrived: Arrived) -> Task:
        world.remote.script = world.honest
        world.clock.now += 1
        return rejected("REPLAY_MEMORY_LOST", "INDETERMINATE")

    world.remote.script = forgetful
    view = to_json(await ask(root, world))
    first, second = (world.grant(arrived) for arrived in world.remote.arrived)
    assert (view["verdict"], view["attempts"]) == ("GRANTED", 2)
    assert first.root_jti != second.root_jti and first.leaf_jti != second.leaf_jti
    assert second.root_issued_at == first.root_issued_at + 1


async def test_a_grant_is_made_anew_only_for_who_is_admitted_again(root: RootAgent, world: RootWorld) -> None:
    async def forgetful(arrived: Arrived) -> Task:
        world.service.world = shipped_world(_Failing(EvaluatorUnavailable("away")))
        return rejected("REPLAY_MEMORY_LOST", "INDETERMINATE")

    world.remote.script = forgetful
    answer = await ask(root, world)
    assert (answer.decision.reason, len(world.remote.arrived)) == (Reason.EVALUATOR_UNAVAILABLE, 1)


@pytest.mark.parametrize("reason", ["GRANT_EXPIRED", "GRANT_REPLAYED", "GRANT_REVOKED", "STATE_UNAVAILABLE"])
async def test_no_other_refusal_is_asked_again(root: RootAgent, world: RootWorld, reason: str) -> None:
    async def refuse(arrived: Arrived) -> Task:
        return rejected(reason, VERDICTS[Reason(reason)].value)

    world.remote.script = refuse
    answer = await ask(root, world)
    assert (answer.decision.reason, len(world.remote.arrived)) == (Reason(reason), 1)


def _other_call(statement: dict[str, Any]) -> None:
    statement["predicate"]["operation"]["call_hash"] = "b" * 64


def _other_leaf(statement: dict[str, Any]) -> None:
    statement["predicate"]["grant"]["leaf_digest"] = "b" * 64


def _other_jti(statement: dict[str, Any]) -> None:
    statement["predicate"]["grant"]["jti"] = "another"


def _other_root(statement: dict[str, Any]) -> None:
    statement["predicate"]["grant"]["root_jti"] = "another"


def _other_transaction(statement: dict[str, Any]) -> None:
    statement["predicate"]["grant"]["txn"] = "txn-0"


def _other_revision(statement: dict[str, Any]) -> None:
    statement["predicate"]["dataset"]["revision"] = "r0"


def _other_version(statement: dict[str, Any]) -> None:
    statement["predicate"]["dataset"]["dataset_version"] = "v0"


def _other_schema(statement: dict[str, Any]) -> None:
    statement["predicate"]["dataset"]["schema_version"] = "0"


def _other_dataset(statement: dict[str, Any]) -> None:
    statement["predicate"]["dataset"]["dataset_id"] = "chromatography-results"


def _other_capability(statement: dict[str, Any]) -> None:
    statement["predicate"]["operation"]["capability"] = "search"


def _other_agent(statement: dict[str, Any]) -> None:
    statement["predicate"]["agent"]["id"] = "urn:other"


def _other_decision(statement: dict[str, Any]) -> None:
    statement["predicate"]["decision"]["decision_id"] = "dec-0"


def _other_policy(statement: dict[str, Any]) -> None:
    statement["predicate"]["decision"]["policy_id"] = "P-0"


def _other_count(statement: dict[str, Any]) -> None:
    statement["predicate"]["authorization"]["rows_returned"] = 3


def _no_receipt(statement: dict[str, Any]) -> None:
    statement["predicate"]["ledger"] = {}


def _other_trace(statement: dict[str, Any]) -> None:
    statement["predicate"]["invocation"]["trace_id"] = "f" * 32


def _later(statement: dict[str, Any]) -> None:
    statement["predicate"]["sealed_at"] = "9999-12-31T23:59:59Z"


def _less_sensitive(statement: dict[str, Any]) -> None:
    statement["predicate"]["authorization"]["sensitivity"] = "public"


def _more_sensitive(statement: dict[str, Any]) -> None:
    statement["predicate"]["authorization"]["sensitivity"] = "confidential"


def _another_agents(statement: dict[str, Any]) -> None:
    statement["predicate"]["execution"]["tool_origin"] = "A2A"


def _another_tools(statement: dict[str, Any]) -> None:
    statement["predicate"]["execution"]["tool_origin"] = "MCP"


def _hidden_text(statement: dict[str, Any]) -> None:
    statement["predicate"]["execution"]["engine"] = "duckdb\u202e"


def _too_much(statement: dict[str, Any]) -> None:
    statement["predicate"]["dataset"]["sources"] = ["s" * 500] * 150


@pytest.mark.parametrize(
    "change",
    [
        _other_call,
        _other_leaf,
        _other_jti,
        _other_root,
        _other_transaction,
        _other_revision,
        _other_version,
        _other_schema,
        _other_dataset,
        _other_capability,
        _other_agent,
        _other_decision,
        _other_policy,
        _other_count,
        _no_receipt,
        _other_trace,
        _later,
        _less_sensitive,
        _more_sensitive,
        _another_agents,
        _another_tools,
        _hidden_text,
        _too_much,
    ],
)
async def test_provenance_about_anything_else_shows_no_row(root: RootAgent, world: RootWorld, change: Any) -> None:
    async def answer(arrived: Arrived) -> Task:
        return world.answer(world.grant(arrived), Call.parse(arrived.call), change=change)

    world.remote.script = answer
    view = to_json(await ask(root, world))
    assert (view["reason"], view["result"], MARKER_ROW in str(view)) == ("REMOTE_PROVENANCE_INVALID", None, False)
    (row,) = world.service.ledger.rows()
    assert (row.cells["reason"], row.cells["rows_returned"]) == ("REMOTE_PROVENANCE_INVALID", None)


async def test_provenance_signed_by_another_key_shows_no_row(root: RootAgent, world: RootWorld) -> None:
    async def answer(arrived: Arrived) -> Task:
        return world.answer(world.grant(arrived), Call.parse(arrived.call), signer=TestSigner())

    world.remote.script = answer
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_PROVENANCE_INVALID


async def test_one_changed_byte_of_the_result_shows_no_row(root: RootAgent, world: RootWorld) -> None:
    async def answer(arrived: Arrived) -> Task:
        task = await world.honest(arrived)
        task.artifacts[0].parts[0].raw = task.artifacts[0].parts[0].raw.replace(b"B001", b"B003")
        return task

    world.remote.script = answer
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_PROVENANCE_INVALID


@pytest.mark.parametrize(
    "changes",
    [
        {"row_count": 3},
        {"truncated": True},
        {"as_of": "2026-08-30T22:00:00.000000Z"},
        {"rows": [["B001"], [MARKER_ROW]]},
        {"schema": [{"nope": 1}], "rows": [{"nope": MARKER_ROW}, {}]},
    ],
)
async def test_a_signed_result_that_is_not_what_the_card_declares_shows_no_row(
    root: RootAgent, world: RootWorld, changes: dict[str, Any]
) -> None:
    async def answer(arrived: Arrived) -> Task:
        call = Call.parse(arrived.call)
        return world.answer(world.grant(arrived), call, body=result(call, **changes))

    world.remote.script = answer
    view = to_json(await ask(root, world))
    assert (view["reason"], view["result"], MARKER_ROW in str(view)) == ("REMOTE_PROVENANCE_INVALID", None, False)


@pytest.mark.parametrize("media_type", ["application/vnd.apache.arrow.stream", "text/html"])
async def test_a_result_signed_as_another_media_type_shows_no_row(
    root: RootAgent, world: RootWorld, media_type: str
) -> None:
    def other(statement: dict[str, Any]) -> None:
        statement["predicate"]["result"]["media_type"] = media_type

    async def answer(arrived: Arrived) -> Task:
        return world.answer(world.grant(arrived), Call.parse(arrived.call), change=other)

    world.remote.script = answer
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_PROVENANCE_INVALID


async def test_yesterdays_answer_to_the_same_call_is_not_shown_again(root: RootAgent, world: RootWorld) -> None:
    kept: list[Task] = []

    async def replay(arrived: Arrived) -> Task:
        kept.append(await world.honest(arrived))
        return kept[0]

    world.remote.script = replay
    first, second = await ask(root, world), await ask(root, world)
    assert (first.verdict, second.decision.reason) == (Verdict.GRANTED, Reason.REMOTE_PROVENANCE_INVALID)


async def reply_with(world: RootWorld, response: Response) -> None:
    async def raw(request: Any) -> Response:
        body = await request.json()
        return response if body["method"] == "SendMessage" else await world_card(world, body)

    world.remote.raw_reply = raw


async def world_card(world: RootWorld, body: dict[str, Any]) -> Response:
    from google.protobuf.json_format import MessageToDict

    return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": MessageToDict(world.remote.extended)})


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response(status_code=500), Reason.REMOTE_FAULT),
        (Response(status_code=401), Reason.REMOTE_FAULT),
        (Response(status_code=429), Reason.REMOTE_UNAVAILABLE),
        (Response(status_code=503), Reason.REMOTE_UNAVAILABLE),
        (Response(content=b"<html>", media_type="text/html"), Reason.REMOTE_RESPONSE_INVALID),
        (Response(content=b'{"jsonrpc":"2.0","id":"1"}'), Reason.REMOTE_RESPONSE_INVALID),
        (
            Response(content=b'{"jsonrpc":"2.0","id":"1","result":{"task":{"status":7}}}'),
            Reason.REMOTE_RESPONSE_INVALID,
        ),
        (
            Response(content=b'{"jsonrpc":"2.0","id":"1","error":{"code":-32008,"message":"extension"}}'),
            Reason.REMOTE_FAULT,
        ),
        (Response(content=b"x" * 4 * 2**20), Reason.REMOTE_RESPONSE_INVALID),
    ],
)
async def test_each_broken_reply_is_an_outcome_of_its_own(
    root: RootAgent, world: RootWorld, response: Response, reason: Reason
) -> None:
    await reply_with(world, response)
    answer = await ask(root, world)
    assert (answer.decision.reason, answer.verdict, answer.asking.visited[-1]) == (
        reason,
        Verdict.INDETERMINATE,
        "record_indeterminate",
    )


async def test_an_agent_that_went_away_after_its_card_was_fetched_is_unreachable(
    root: RootAgent, world: RootWorld
) -> None:
    await ask(root, world)
    kept = world.service.cards._kept  # type: ignore[attr-defined]
    gone = replace(kept[AGENT_ID].card, rpc_url="http://127.0.0.1:9/")
    kept[AGENT_ID] = replace(kept[AGENT_ID], card=gone)
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_UNREACHABLE


async def test_an_agent_that_is_not_there_is_unreachable_before_admission(root: RootAgent, world: RootWorld) -> None:
    world.service.agents = ((world.service.trust.agents[AGENT_ID], "http://127.0.0.1:9"),)
    answer = await ask(root, world)
    assert (answer.decision.reason, answer.asking.visited) == (
        Reason.REMOTE_UNREACHABLE,
        (*FIRST, "record_indeterminate"),
    )


async def test_a_remote_that_takes_too_long_is_a_timeout(root: RootAgent, world: RootWorld) -> None:
    async def slow(arrived: Arrived) -> Task:
        await asyncio.sleep(0.6)
        return await world.honest(arrived)

    world.remote.script = slow
    world.service.call_timeout = 0.2
    assert (await ask(root, world)).decision.reason is Reason.REMOTE_TIMEOUT


@pytest.mark.parametrize("who", ["process_engineer", "external_auditor"])
async def test_every_asking_leaves_exactly_one_terminal_row(root: RootAgent, world: RootWorld, who: str) -> None:
    await ask(root, world, who)
    assert world.service.ledger.checkpoint().size == 1


async def test_the_row_names_grant_leaf_and_the_remotes_envelope(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world)
    row, grant = last_row(world), world.grant(world.remote.arrived[0])
    assert (row["leaf_digest"], row["root_jti"], row["tool_origin"], len(str(row["upstream_digest"]))) == (
        grant.leaf_digest,
        grant.root_jti,
        "A2A",
        64,
    )


async def test_the_ledger_verifies_after_mixed_askings(root: RootAgent, world: RootWorld) -> None:
    for who in ("process_engineer", "external_auditor", "analyst"):
        await ask(root, world, who)
    report = verify_ledger(world.service.ledger.path, world.service.holder.public_key)
    assert report.ok


async def test_without_evidence_there_are_no_rows(root: RootAgent, world: RootWorld) -> None:
    world.service.ledger.close()
    view = to_json(await ask(root, world))
    assert (view["reason"], view["result"], view["evidence"]["root"]) == ("EVIDENCE_UNAVAILABLE", None, None)


async def test_a_cancelled_asking_is_recorded_and_forgotten(root: RootAgent, world: RootWorld) -> None:
    arrived = asyncio.Event()

    async def never(message: Arrived) -> Task:
        arrived.set()
        await asyncio.sleep(0.5)
        return await world.honest(message)

    world.remote.script = never
    asking = asyncio.create_task(ask(root, world))
    await arrived.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (last_row(world)["reason"], len(root._desk)) == ("CANCELLED", 0)


@pytest.mark.parametrize(
    ("who", "reason"),
    [("process_engineer", "PRINCIPAL_AUTHORIZED"), ("external_auditor", "INSUFFICIENT_PRIVILEGE")],
)
async def test_an_asking_cancelled_while_its_row_is_written_has_just_that_row(
    root: RootAgent, world: RootWorld, monkeypatch: pytest.MonkeyPatch, who: str, reason: str
) -> None:
    written = asyncio.Event()
    append = world.service.ledger.append_async

    async def slow(row: Any) -> Any:
        receipt = await append(row)
        written.set()
        await asyncio.sleep(0.05)
        return receipt

    monkeypatch.setattr(world.service.ledger, "append_async", slow)
    asking = asyncio.create_task(ask(root, world, who))
    await written.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (row,) = world.service.ledger.rows()
    assert row.cells["reason"] == reason
    assert len(root._desk) == 0


async def test_an_asking_cancelled_twice_is_recorded_once(root: RootAgent, world: RootWorld) -> None:
    arrived = asyncio.Event()

    async def never(message: Arrived) -> Task:
        arrived.set()
        await asyncio.sleep(0.3)
        return await world.honest(message)

    world.remote.script = never
    asking = asyncio.create_task(ask(root, world))
    await arrived.wait()
    asking.cancel()
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    while len(root._desk):
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert [row.cells["reason"] for row in world.service.ledger.rows()] == ["CANCELLED"]


async def test_nothing_is_left_on_the_desk_or_in_sessions(root: RootAgent, world: RootWorld) -> None:
    await ask(root, world)
    sessions = await root._sessions.list_sessions(app_name="root_agent")
    assert (len(root._desk), sessions.sessions) == (0, [])


@pytest.mark.parametrize("outcome", ["HIT", "STALE"])
async def test_a_stored_result_counts_as_no_call_of_the_remotes_engine(
    root: RootAgent, world: RootWorld, outcome: str
) -> None:
    world.cache_outcome = outcome
    view = to_json(await ask(root, world))
    assert (view["cache"]["outcome"], view["a2a_calls"]) == (outcome, [])
    assert last_row(world)["cache"] == outcome
    assert view["cache"]["age_s"] == (0.0 if outcome == "STALE" else None)


async def test_many_askings_at_once_do_not_meet(root: RootAgent, world: RootWorld) -> None:
    who = ["process_engineer", "external_auditor"] * 8
    answers = await asyncio.gather(*(ask(root, world, name) for name in who))
    assert [answer.verdict for answer in answers] == [Verdict.GRANTED, Verdict.REFUSED] * 8


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"question": ""},
        {"question": "  \n"},
        {"question": "x" * 4_001},
        {"question": 7},
        {"question": "\ud800"},
        {"question": "x", "call": CALL},
        {"call": {"dataset": "d"}},
        {"call": CALL | {"more": 1}},
        {"call": CALL | {"dataset": "No Slug"}},
        {"call": CALL | {"arguments": []}},
        {"call": CALL | {"arguments": {"query": float("nan")}}},
        {"call": CALL | {"arguments": {"query": "x" * 70_000}}},
    ],
)
async def test_what_cannot_be_asked_is_said_at_the_door(root: RootAgent, world: RootWorld, wanted: Any) -> None:
    with pytest.raises(DatasetAgentError) as fault:
        await root.ask(world.token("process_engineer"), **wanted)
    assert fault.value.category is Category.INVALID_INPUT and world.service.ledger.checkpoint().size == 0


@pytest.mark.parametrize("token", [None, "", "abc", "a.b.c"])
async def test_without_a_valid_identity_token_nobody_asks(root: RootAgent, world: RootWorld, token: str | None) -> None:
    with pytest.raises(DatasetAgentError) as fault:
        await root.ask(token, question=QUESTION)
    assert fault.value.category is Category.UNAUTHENTICATED


async def test_a_token_for_another_audience_is_no_identity_here(root: RootAgent, world: RootWorld) -> None:
    with pytest.raises(DatasetAgentError) as fault:
        await root.ask(world.token("process_engineer", audience=AGENT_ID), question=QUESTION)
    assert fault.value.category is Category.UNAUTHENTICATED


async def test_a_run_that_breaks_outside_every_step_still_ends_recorded(
    root: RootAgent, world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(asking: Any) -> None:
        raise RuntimeError("ADK broke")

    monkeypatch.setattr(root, "_run", broken)
    answer = await ask(root, world)
    assert (answer.decision.reason, last_row(world)["reason"]) == (Reason.EXECUTION_FAILED, "EXECUTION_FAILED")
