"""Verified provenance as OpenLineage events: every execution once, joined by what one made and the next one read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from evidence.dsse import upstream_digest
from evidence.lineage import PROVENANCE_FACET, run_events, run_id
from evidence.predicate import Predicate
from evidence.provenance import verify_saved
from evidence.tree import Branch, verify_tree
from tests.evidence.evidence_builders import BODY
from tests.evidence.provenance_trees import KEYS, Node, agent_id, grown, signer_of

TREE = Node(0, (Node(1, (Node(2),)), Node(3)))


def events_of(tree: Node) -> tuple[list[dict[str, Any]], dict[str, Any], Branch]:
    envelope = grown(tree)
    statement, key = verify_saved(envelope, KEYS[agent_id(0)], body=BODY, agent_id=agent_id(0))
    top = Branch(statement, key, None, verify_tree(statement, KEYS))
    return list(run_events(envelope, top)), envelope, top


@pytest.fixture(scope="module")
def lineage() -> tuple[list[dict[str, Any]], dict[str, Any], Branch]:
    return events_of(TREE)


@pytest.fixture
def events(lineage: tuple[list[dict[str, Any]], dict[str, Any], Branch]) -> list[dict[str, Any]]:
    return lineage[0]


@pytest.fixture
def statements(lineage: tuple[list[dict[str, Any]], dict[str, Any], Branch]) -> dict[str, Predicate]:
    """What each agent states of its execution."""

    def each(branch: Branch) -> Iterator[Predicate]:
        yield branch.statement.predicate
        for below in branch.branches:
            yield from each(below)

    return {told.agent.id: told for told in each(lineage[2])}


def test_each_execution_begins_and_completes_and_what_others_rest_on_comes_first(events: list[dict[str, Any]]) -> None:
    told = [(event["eventType"], event["job"]["namespace"]) for event in events]
    order = [agent_id(number) for number in (2, 1, 3, 0)]
    assert told == [(kind, agent) for agent in order for kind in ("START", "COMPLETE")]
    assert len({event["run"]["runId"] for event in events}) == 4


def test_the_form_is_that_of_the_specification(events: list[dict[str, Any]]) -> None:
    for event in events:
        assert set(event) == {"eventType", "eventTime", "run", "job", "inputs", "outputs", "producer", "schemaURL"}
        assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
        assert uuid.UUID(event["run"]["runId"]).version == 5
        for part in (event["job"], *event["inputs"], *event["outputs"]):
            assert part["namespace"] and part["name"]
        parts = [event["run"], *event["inputs"], *event["outputs"]]
        for facet in [facet for part in parts for facet in part["facets"].values()]:
            assert {"_producer", "_schemaURL"} < set(facet)


def test_what_one_agent_made_is_what_the_one_that_asked_it_read(events: list[dict[str, Any]]) -> None:
    done = {event["job"]["namespace"]: event for event in events if event["eventType"] == "COMPLETE"}
    for asked, asker in ((2, 1), (1, 0), (3, 0)):
        (made,) = done[agent_id(asked)]["outputs"]
        assert made in done[agent_id(asker)]["inputs"]
        parent = done[agent_id(asked)]["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == done[agent_id(asker)]["run"]["runId"]
    assert "parent" not in done[agent_id(0)]["run"]["facets"]


def test_each_event_has_the_digest_of_the_envelope_that_proves_it() -> None:
    events, envelope, _ = events_of(TREE)
    top = events[-1]["run"]["facets"]["dataset_agent_provenance"]
    assert (top["_schemaURL"], top["envelope_payload_sha256"]) == (PROVENANCE_FACET, upstream_digest(envelope))
    digests = {event["run"]["facets"]["dataset_agent_provenance"]["envelope_payload_sha256"] for event in events}
    assert len(digests) == 4


def test_a_run_has_the_same_id_each_time_it_is_told() -> None:
    envelope = grown(TREE)
    statement, key = verify_saved(envelope, KEYS[agent_id(0)], body=BODY, agent_id=agent_id(0))
    tree = Branch(statement, key, None, verify_tree(statement, KEYS))
    assert list(run_events(envelope, tree)) == list(run_events(envelope, tree))


def test_an_event_says_what_the_statement_says_that_it_is_made_of(
    events: list[dict[str, Any]], statements: dict[str, Predicate]
) -> None:
    for start, complete in zip(events[::2], events[1::2], strict=True):
        agent = complete["job"]["namespace"]
        told = statements[agent]
        assert (start["eventTime"], complete["eventTime"]) == (told.execution.started, told.sealed_at)
        assert start["eventTime"] < complete["eventTime"]
        assert complete["job"]["name"] == f"{told.dataset.dataset_id}.{told.operation.capability}"
        read = complete["inputs"][0]
        assert (read["name"], read["facets"]["version"]["datasetVersion"]) == (
            told.dataset.dataset_id,
            told.dataset.revision,
        )
        facet = complete["run"]["facets"]["dataset_agent_provenance"]
        said = {name: value for name, value in facet.items() if not name.startswith("_")}
        assert said.pop("envelope_payload_sha256")
        assert said == {
            "signed_by": signer_of(agent).public_key.thumbprint,
            "decision_id": told.decision.decision_id,
            "verdict": "GRANTED",
            "policy": f"{told.decision.policy_id}@{told.decision.policy_version}",
            "txn": told.grant.txn,
            "trace_id": told.invocation.trace_id,
            "dataset_version": told.dataset.dataset_version,
            "schema_version": told.dataset.schema_version,
            "sources": ["MES historian"],
            "cache": "MISS",
            "execution_id": told.execution.execution_id,
            "rows_returned": 0,
            "ledger_row": 0,
        }


def test_a_run_is_of_one_decision_of_one_agent(statements: dict[str, Predicate]) -> None:
    told = statements[agent_id(0)]
    decided = told.decision.model_copy(update={"decision_id": "dec-other"})
    others = [{"decision": decided}, {"agent": told.agent.model_copy(update={"id": agent_id(7)})}]
    runs = [run_id(told), *(run_id(told.model_copy(update=other)) for other in others)]
    assert len(set(runs)) == 3


def test_no_row_and_no_commitment_key_is_in_an_event(events: list[dict[str, Any]]) -> None:
    told = json.dumps(events)
    assert BODY.decode() not in told
    assert "opening" not in told
    assert "call_hash" not in told
