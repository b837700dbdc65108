"""A governed call over real loopback HTTP: what is answered, what is refused, and what is left behind."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace

import httpx
import pytest

from contract.call import Operation
from contract.canonical import b64url, sha256_hex, unb64url
from contract.extension import CACHE_KEY, RECEIPT_KEY
from contract.scope import Scope, Sensitivity
from evidence.provenance import verify_provenance
from grants.key_files import FileSigner
from tests.running_agent import COMPARE, Asker, RunningAgent, decision_of, message, result_of, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"


def test_a_granted_call_returns_rows_with_provenance_that_the_agents_key_signed(
    agent: RunningAgent, asker: Asker
) -> None:
    task = asker.ask(DATASET, CAPABILITY, COMPARE)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert decision_of(task)["verdict"] == "GRANTED"
    assert result_of(task)["row_count"] > 0
    artifacts = {item["name"]: base64.b64decode(item["parts"][0]["raw"]) for item in task["artifacts"]}
    statement = verify_provenance(
        json.loads(artifacts["provenance"]),
        agent.lifecycle.service.signer.public_key,
        body=artifacts["result"],
        dataset=DATASET,
        capability=CAPABILITY,
    )
    assert statement.predicate.execution.tool_origin == "LOCAL"


def test_the_second_equal_call_is_a_hit_with_the_same_rows_and_another_proof(asker: Asker) -> None:
    arguments = {"batch_a": "B010", "batch_b": "B011"}
    first, second = (asker.ask(DATASET, CAPABILITY, arguments) for _ in range(2))
    assert first["metadata"][CACHE_KEY]["outcome"] == "MISS"
    assert second["metadata"][CACHE_KEY]["outcome"] == "HIT"
    assert result_of(first) == result_of(second)
    assert first["artifacts"][1]["parts"][0]["raw"] != second["artifacts"][1]["parts"][0]["raw"]


def test_another_principal_class_has_a_partition_of_its_own(agent: RunningAgent, asker: Asker) -> None:
    arguments = {"batch_a": "B012", "batch_b": "B013"}
    asker.ask(DATASET, CAPABILITY, arguments)
    analyst = Asker(agent.settings, agent.url, principal="analyst")
    assert analyst.ask(DATASET, CAPABILITY, arguments)["metadata"][CACHE_KEY]["outcome"] == "MISS"


def test_without_a_credential_there_is_401_and_no_ledger_row(agent: RunningAgent, asker: Asker) -> None:
    before = len(agent.rows())
    response = asker.send(asker.call(DATASET, CAPABILITY, COMPARE), asker.headers(authenticated=False))
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert len(agent.rows()) == before


def test_without_the_extension_the_protocol_says_that_it_is_required(asker: Asker) -> None:
    response = asker.send(asker.call(DATASET, CAPABILITY, COMPARE), asker.headers(extension=False))
    assert response.json()["error"]["code"] == -32008


def test_six_bad_grants_are_rejected_by_six_names_with_six_rows_and_no_execution(
    agent: RunningAgent, asker: Asker
) -> None:
    call = asker.call(DATASET, CAPABILITY, {"batch_a": "B020", "batch_b": "B021"})
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    scope = asker.scope(DATASET, CAPABILITY)
    good = asker.grant(scope, operation)
    root, leaf = good.split(",")
    header, payload, signature = leaf.split(".")
    claims = json.loads(unb64url(payload)) | {"jti": "another"}
    foreign = FileSigner.generate(agent.settings.home / "foreign" / "grant.jwk")
    elsewhere = asker.scope(DATASET, CAPABILITY, locations=frozenset({agent.settings.root_id}))
    bad = {
        "NO_ACTIVE_GRANT": None,
        "GRANT_EXPIRED": asker.grant(scope, operation, now=time.time() - 400),
        "GRANT_SIGNATURE_INVALID": ",".join((root, f"{header}.{b64url(json.dumps(claims).encode())}.{signature}")),
        "GRANT_KEY_UNTRUSTED": asker.grant(scope, operation, signer=foreign),
        "GRANT_AUDIENCE_MISMATCH": asker.grant(elsewhere, operation, audience=agent.settings.root_id),
    }
    assert decision_of(task_of(asker.send(call, asker.headers(good))))["verdict"] == "GRANTED"
    bad["GRANT_REPLAYED"] = good
    before = len(agent.rows())
    for reason, grant in bad.items():
        task = task_of(asker.send(call, asker.headers(grant)))
        assert task["status"]["state"] == "TASK_STATE_REJECTED"
        assert decision_of(task)["reason"] == reason
        assert "artifacts" not in task
    rows = agent.rows()[before:]
    assert [row.cells["reason"] for row in rows] == list(bad)
    assert all(row.cells["execution_id"] is None for row in rows)


@pytest.mark.parametrize(
    ("dataset", "capability", "arguments"),
    [
        (DATASET, "detect_outliers", {}),
        ("chromatography-results", CAPABILITY, COMPARE),
        (DATASET, "raw_sql", {"sql": "SELECT 1"}),
    ],
)
def test_a_call_outside_the_grant_would_widen_it(
    asker: Asker, dataset: str, capability: str, arguments: dict[str, str]
) -> None:
    call = asker.call(dataset, capability, arguments)
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    decision = decision_of(task_of(asker.send(call, asker.headers(grant))))
    assert decision["reason"] == "GRANT_WIDENED"
    assert "widen" in decision["rationale"]


def test_what_is_outside_the_grant_is_not_decided_about(agent: RunningAgent) -> None:
    """Whoever asks beyond a grant does not learn what the policy would have said."""
    analyst = Asker(agent.settings, agent.url, principal="analyst")
    call = analyst.call(DATASET, "detect_outliers", {"metric": "recovery"})
    grant = analyst.grant(analyst.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    decision = decision_of(task_of(analyst.send(call, analyst.headers(grant))))
    assert (decision["reason"], decision["policy_id"]) == ("GRANT_WIDENED", None)


def test_a_dataset_that_is_not_here_is_indeterminate_by_its_own_name(asker: Asker) -> None:
    call = asker.call("another-dataset", CAPABILITY, COMPARE)
    scope = replace(asker.scope(DATASET, CAPABILITY), dataset="another-dataset")
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    decision = decision_of(task_of(asker.send(call, asker.headers(grant))))
    assert (decision["verdict"], decision["reason"]) == ("INDETERMINATE", "MISSING_DESCRIPTOR")


def test_other_bytes_than_the_grant_is_bound_to_are_another_operation(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    decision = decision_of(task_of(asker.send(call + b" ", asker.headers(grant))))
    assert decision["reason"] == "GRANT_OPERATION_MISMATCH"


def test_a_grant_for_a_superseded_revision_executes_nothing(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    scope = asker.scope(DATASET, CAPABILITY, revision="s3-etag-older")
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    decision = decision_of(task_of(asker.send(call, asker.headers(grant))))
    assert decision["reason"] == "UNKNOWN_DATASET_REVISION"
    assert "revision" in decision["rationale"]
    assert decision["policy_id"] is None


def test_this_agents_own_policy_refuses_what_the_root_granted(agent: RunningAgent) -> None:
    auditor = Asker(agent.settings, agent.url, principal="external_auditor")
    decision = decision_of(auditor.ask(DATASET, CAPABILITY, COMPARE))
    assert decision["reason"] == "INSUFFICIENT_PRIVILEGE"
    assert decision["policy_id"]


def test_a_refused_or_failed_attempt_burns_no_grant(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, {"batch_a": "B001", "batch_b": 2})
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    reasons = [decision_of(task_of(asker.send(call, asker.headers(grant))))["reason"] for _ in range(2)]
    assert reasons == ["ARGUMENTS_INVALID", "ARGUMENTS_INVALID"]


def test_sensitivity_above_the_grant_is_refused(asker: Asker) -> None:
    call = asker.call(DATASET, "detect_outliers", {"metric": "recovery"})
    scope: Scope = asker.scope(DATASET, "detect_outliers", max_sensitivity=Sensitivity.INTERNAL)
    grant = asker.grant(scope, Operation("SendMessage", call_hash=sha256_hex(call)))
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["reason"] == "GRANT_WIDENED"


def test_every_answer_carries_a_receipt_of_the_ledger(asker: Asker) -> None:
    task = task_of(asker.send(asker.call(DATASET, CAPABILITY, COMPARE), asker.headers(None)))
    assert task["metadata"][RECEIPT_KEY]["index"] >= 0


def test_http_json_is_governed_by_the_same_path(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    refused = httpx.post(asker.url + "/message:send", json={"message": message(call)}, headers=asker.headers(None))
    assert decision_of(refused.json()["task"])["reason"] == "NO_ACTIVE_GRANT"
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    granted = httpx.post(asker.url + "/message:send", json={"message": message(call)}, headers=asker.headers(grant))
    assert decision_of(granted.json()["task"])["verdict"] == "GRANTED"


def test_a_stream_is_governed_by_the_same_path(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    operation = Operation("SendStreamingMessage", call_hash=sha256_hex(call))
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), operation)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message(call)}}
    with httpx.stream("POST", asker.url + "/", json=body, headers=asker.headers(grant), timeout=30) as response:
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
    kinds = [next(iter(event["result"])) for event in events]
    assert kinds == ["task", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    assert events[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_grant_for_one_method_does_not_open_the_other(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    operation = Operation("SendStreamingMessage", call_hash=sha256_hex(call))
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), operation)
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["reason"] == "GRANT_OPERATION_MISMATCH"


def test_one_call_counts_as_one_miss_or_one_hit(agent: RunningAgent, asker: Asker) -> None:
    before = dict(agent.lifecycle.service.cache.counters)
    for _ in range(2):
        asker.ask(DATASET, CAPABILITY, {"batch_a": "B090", "batch_b": "B091"})
    after = agent.lifecycle.service.cache.counters
    assert {name: after[name] - before.get(name, 0) for name in ("absent", "hit")} == {"absent": 1, "hit": 1}


def test_a_refused_call_is_recorded_with_what_was_asked_for_and_without_what_was_not_resolved(
    agent: RunningAgent, asker: Asker
) -> None:
    before = len(agent.rows())
    wrong = asker.call(DATASET, CAPABILITY, {"batch_a": "B001", "batch_b": 2})
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(wrong)))
    for call, header in ((wrong, grant), (wrong, None), (b"not a call", None)):
        asker.send(call, asker.headers(header))
    rows = [row.cells for row in agent.rows()[before:]]
    assert [row["reason"] for row in rows] == ["ARGUMENTS_INVALID", "NO_ACTIVE_GRANT", "NO_ACTIVE_GRANT"]
    assert [row["requested_capability"] for row in rows] == [CAPABILITY, CAPABILITY, None]
    assert [row["capability"] for row in rows] == [CAPABILITY, None, None]
