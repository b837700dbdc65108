"""What an attacker tried, kind by kind, and the right answer to it."""

from __future__ import annotations

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.ids import new_id
from contract.scope import parse_rows
from dataset_agent.process import server_settings
from grants.derive import derive, header_value
from grants.mint import mint_discovery
from tests.remote_agent.test_tasks_and_cards import ENGINEER, as_person, described
from tests.running_agent import COMPARE, Asker, RunningAgent, decision_of, message, result_of, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"
MARKER = "PATIENT-NAME-77"


def granted(asker: Asker, dataset: str, capability: str, arguments: dict[str, Any], **scope: Any) -> dict[str, Any]:
    call = asker.call(dataset, capability, arguments)
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    return task_of(asker.send(call, asker.headers(asker.grant(asker.scope(dataset, capability, **scope), operation))))


def constraints(raw: dict[str, Any]) -> Any:
    return parse_rows(raw)


def test_a_filter_on_a_masked_identifier_links_no_person_to_a_hash(agent: RunningAgent) -> None:
    reviewer = Asker(agent.settings, agent.url, principal="clinical_reviewer")
    for raw in ({"one_of": ["S-72366"]}, {"prefix": "S-72"}, {"not_one_of": ["S-72366"]}):
        for capability, arguments in (("search", {"query": "a"}), ("aggregate", {"metric": "crp"})):
            narrowed = constraints({"subject_observation.subject_id": raw})
            task = granted(reviewer, "clinical-private", capability, arguments, constraints=narrowed)
            assert decision_of(task)["reason"] == "COLUMN_NOT_PERMITTED"


def test_a_filter_on_a_column_outside_the_grants_columns_is_refused(asker: Asker) -> None:
    narrowed = constraints({"batch_record.notes": {"prefix": "a"}})
    task = granted(
        asker, DATASET, CAPABILITY, COMPARE, constraints=narrowed, columns=frozenset({"batch_record.batch_id"})
    )
    assert decision_of(task)["reason"] == "COLUMN_NOT_PERMITTED"


def test_a_constraint_that_cannot_govern_is_refused_and_not_ignored(asker: Asker) -> None:
    unread = constraints({"in_process_control.hcp_ppm": {"max": 10}})
    assert decision_of(granted(asker, DATASET, "search", {"query": "a"}, constraints=unread))["verdict"] == "REFUSED"
    site = constraints({"chromatography_run.site": {"one_of": []}})
    for metric in ("resolution", "hetp"):
        task = granted(asker, "chromatography-results", "aggregate", {"metric": metric}, constraints=site)
        shown = result_of(task)["rows"] if decision_of(task)["verdict"] == "GRANTED" else []
        assert shown == []


def test_a_site_constraint_holds_in_every_purification_capability(asker: Asker) -> None:
    nowhere = constraints({"batch_record.site": {"one_of": []}})
    calls = {
        "search": {"query": "a"},
        "compare_batches": COMPARE,
        "calculate_yield": {"batch_id": "B001"},
        "detect_outliers": {"metric": "recovery"},
    }
    for capability, arguments in calls.items():
        task = granted(asker, DATASET, capability, arguments, constraints=nowhere)
        assert result_of(task)["rows"] == [], capability


def test_cancelling_at_any_moment_leaves_exactly_one_row(agent: RunningAgent, asker: Asker) -> None:
    headers = as_person(asker, ENGINEER)
    for attempt in range(12):
        words = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare B001 and B002"}]}
        negotiated = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", negotiate=True))
        task = task_of(asker.rpc("SendMessage", {"message": words}, asker.headers(negotiated) | headers))
        call = asker.call(DATASET, CAPABILITY, {"batch_a": "B050", "batch_b": f"B{60 + attempt:03d}"})
        grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
        sent = message(call) | {"taskId": task["id"], "contextId": task["contextId"]}
        before = len(agent.rows())
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(asker.rpc, "SendMessage", {"message": sent}, asker.headers(grant) | headers)
            time.sleep(0.001 * attempt)
            asker.rpc("CancelTask", {"id": task["id"]}, headers)
        came_late = sending.result().json().get("error", {}).get("code") == -32004  # the waiting task was cancelled
        assert len(agent.rows()) == before + (0 if came_late else 1)


@pytest.mark.parametrize(
    "message_",
    [
        {"parts": [{"data": [0] * 60_000}]},
        {"metadata": {"a": [0] * 60_000}, "parts": [{"text": "x"}]},
        {"parts": [{}] * 60_000},
        {"parts": [{"text": ""}] * 15_000},
    ],
)
def test_a_body_that_is_dear_to_parse_is_refused_before_it_is_parsed(asker: Asker, message_: dict[str, Any]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "m", **message_}}}
    raw = json.dumps(body, separators=(",", ":")).encode()
    response = httpx.post(asker.url + "/", content=raw, headers=asker.headers(), timeout=30)
    assert response.status_code == 400
    assert "values" in response.json()["detail"]


def test_a_body_in_another_encoding_is_refused(asker: Asker) -> None:
    raw = ('{"Ģ":' + "[" * 500).encode("utf-16-le")
    assert httpx.post(asker.url + "/", content=raw, headers=asker.headers()).status_code == 400


def test_a_malformed_request_is_quoted_in_no_log_and_no_reply(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [
        asker.rpc("SendMessage", {"message": {"messageId": "m", "parts": MARKER}}, asker.headers()),
        asker.rpc("SendMessage", {"message": MARKER}, asker.headers()),
        asker.rpc("ListTasks", {"pageSize": MARKER}, asker.headers()),
        asker.rpc(MARKER, {}, asker.headers()),
        httpx.post(asker.url + "/message:send", json={"message": {"parts": MARKER}}, headers=asker.headers()),
        httpx.post(asker.url + "/acme/message:send", json={"message": MARKER}, headers=asker.headers()),
        httpx.post(asker.url + "/message:stream", json={"message": {"parts": MARKER}}, headers=asker.headers()),
        httpx.get(asker.url + "/tasks", params={"pageSize": MARKER}, headers=asker.headers()),
        httpx.post(asker.url + "/", content=b'{"a": ' + MARKER.encode(), headers=asker.headers()),
    ]
    assert not any(MARKER in reply.text for reply in replies)
    # pytest listens to uvicorn's access log too, which `serve` has switched off (it would show queries)
    assert server_settings()["access_log"] is False
    assert MARKER not in "\n".join(caplog.handler.format(r) for r in caplog.records if r.name != "uvicorn.access")


def test_what_is_remembered_of_a_negotiation_holds_no_argument(asker: Asker) -> None:
    grant = asker.grant(asker.scope(DATASET, "search"), Operation("SendMessage", negotiate=True))
    words = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "search batches for zebra fouling"}]}
    task = task_of(asker.rpc("SendMessage", {"message": words}, asker.headers(grant)))
    found = asker.rpc("GetTask", {"id": task["id"]}, as_person(asker, ENGINEER)).json()["result"]
    assert "raw" in json.dumps(task["status"])
    assert "raw" not in json.dumps(found["status"])


@pytest.mark.parametrize("member", ["contextId", "messageId", "taskId"])
def test_an_id_that_is_no_id_is_not_taken_in(asker: Asker, member: str) -> None:
    sent = message(asker.call(DATASET, CAPABILITY, COMPARE)) | {member: "x" * 513}
    assert asker.rpc("SendMessage", {"message": sent}, asker.headers()).json()["error"]["code"] == -32602


def discovered(asker: Asker, principal: str, **mint: Any) -> httpx.Response:
    settings, now = asker.settings, time.time()
    person = Asker(settings, asker.url, principal=principal)
    token = mint_discovery(
        asker.issuer,
        issuer_url=settings.issuer_url,
        principal=person._principal(),
        holder=asker.trust.agents[settings.root_id],
        rctx={"trace_id": new_id("t")[2:]},
        now=now,
        **mint,
    )
    audience = asker.trust.agents[settings.agent_id]
    chain = derive((token,), asker.holder, audience=audience, operation=Operation("discover"), now=now)
    headers = as_person(asker, None) | {"Execution-Grant": header_value(chain)}
    return asker.rpc("GetExtendedAgentCard", {}, headers)


def test_discovery_leaves_one_row_whatever_comes_of_it(agent: RunningAgent, asker: Asker) -> None:
    before = len(agent.rows())
    assert "result" in discovered(asker, "analyst").json()
    refused = discovered(asker, "external_auditor").json()["error"]
    assert "INSUFFICIENT_PRIVILEGE" in refused["message"]
    assert [row.cells["reason"] for row in agent.rows()[before:]] == ["PRINCIPAL_AUTHORIZED", "INSUFFICIENT_PRIVILEGE"]


def test_a_discover_leaf_with_a_scope_shows_no_more_than_the_scope(asker: Asker) -> None:
    now = time.time()
    token = asker.root_token(asker.scope(DATASET, "search"), now=now)
    audience = asker.trust.agents[asker.settings.agent_id]
    chain = derive((token,), asker.holder, audience=audience, operation=Operation("discover"), now=now)
    headers = as_person(asker, None) | {"Execution-Grant": header_value(chain)}
    card = asker.rpc("GetExtendedAgentCard", {}, headers).json()["result"]
    shown = {name: [c["name"] for c in raw["capabilities"]] for name, raw in described(card).items()}
    assert shown == {DATASET: ["search"]}


def test_a_filter_cannot_read_a_column_that_no_capability_shows(asker: Asker) -> None:
    warm = constraints({"step_condition.temperature_c": {"min": "20.8"}})
    task = granted(asker, DATASET, CAPABILITY, COMPARE, constraints=warm)
    assert decision_of(task)["reason"] == "COLUMN_NOT_PERMITTED"
