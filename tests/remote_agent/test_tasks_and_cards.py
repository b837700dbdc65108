"""Tasks belong to an agent and a person and never hold rows; cards show what may be seen."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import httpx
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import EXTENSION_URI
from contract.ids import new_id
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.mint import mint_discovery
from remote_agent.card import CARD_FILE
from tests.running_agent import COMPARE, Asker, RunningAgent, decision_of, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"
ENGINEER = ("https://issuer.dataset-agent.example", "acme", "u-eng-01")
ANALYST = ("https://issuer.dataset-agent.example", "acme", "u-ana-01")


def as_person(asker: Asker, person: tuple[str, str, str] | None) -> dict[str, str]:
    settings = asker.settings
    assertion = client_assertion(
        asker.holder, agent_id=settings.root_id, audience=settings.agent_id, now=time.time(), person=person
    )
    return {"A2A-Version": "1.0", "Authorization": f"Bearer {assertion}"}


def test_a_stored_task_has_status_decision_and_proof_but_no_row(asker: Asker) -> None:
    task = asker.ask(DATASET, CAPABILITY, COMPARE)
    found = asker.rpc("GetTask", {"id": task["id"]}, as_person(asker, ENGINEER)).json()["result"]
    assert found["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [artifact["name"] for artifact in found["artifacts"]] == ["provenance"]
    listed = asker.rpc("ListTasks", {"includeArtifacts": True}, as_person(asker, ENGINEER)).json()["result"]
    assert task["id"] in {item["id"] for item in listed["tasks"]}
    result = next(artifact for artifact in task["artifacts"] if artifact["name"] == "result")
    assert result["parts"][0]["raw"] not in json.dumps([found, listed])


def test_another_persons_task_is_not_found(asker: Asker) -> None:
    task = asker.ask(DATASET, CAPABILITY, COMPARE)
    for person in (ANALYST, None):
        for method in ("GetTask", "CancelTask"):
            error = asker.rpc(method, {"id": task["id"]}, as_person(asker, person)).json()["error"]
            assert error["code"] == -32001
        listed = asker.rpc("ListTasks", {}, as_person(asker, person)).json()["result"]
        assert task["id"] not in {item["id"] for item in listed["tasks"]}


def test_another_agents_task_is_not_found(agent: RunningAgent, asker: Asker) -> None:
    task = asker.ask(DATASET, CAPABILITY, COMPARE)
    remote = agent.lifecycle.service.signer
    settings = asker.settings
    assertion = client_assertion(
        remote, agent_id=settings.agent_id, audience=settings.agent_id, now=time.time(), person=ENGINEER
    )
    headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {assertion}"}
    assert asker.rpc("GetTask", {"id": task["id"]}, headers).json()["error"]["code"] == -32001


def test_a_client_that_names_another_person_than_the_grant_is_refused(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    headers = asker.headers(grant) | as_person(asker, ANALYST)
    assert decision_of(task_of(asker.send(call, headers)))["reason"] == "GRANT_CLIENT_MISMATCH"


def test_an_ended_task_can_be_neither_cancelled_nor_followed(asker: Asker) -> None:
    task = asker.ask(DATASET, CAPABILITY, COMPARE)
    headers = as_person(asker, ENGINEER)
    assert asker.rpc("CancelTask", {"id": task["id"]}, headers).json()["error"]["code"] == -32002
    followed = asker.rpc("SubscribeToTask", {"id": task["id"]}, headers | {"A2A-Extensions": EXTENSION_URI})
    assert followed.json()["error"]["code"] == -32004


def test_push_notifications_are_refused(asker: Asker) -> None:
    params = {"taskId": "t", "url": "https://example.org/hook"}
    error = asker.rpc("CreateTaskPushNotificationConfig", params, as_person(asker, ENGINEER)).json()["error"]
    assert error["code"] == -32003


def card_of(agent: RunningAgent) -> dict[str, Any]:
    return dict(httpx.get(agent.url + "/.well-known/agent-card.json").json())


def described(card: dict[str, Any]) -> dict[str, Any]:
    extension = next(e for e in card["capabilities"]["extensions"] if e["uri"] == EXTENSION_URI)
    return {d["dataset"]: d for d in extension["params"]["descriptors"]}


def test_the_public_card_verifies_with_the_pinned_key_and_shows_no_restricted_dataset(agent: RunningAgent) -> None:
    card = card_of(agent)
    key = agent.lifecycle.service.signer.public_key
    jwk = PyJWK({"kty": "OKP", "crv": "Ed25519", "x": key.jwk()["x"]}, algorithm="EdDSA")
    create_signature_verifier(lambda kid, jku: jwk, ["EdDSA"])(parse_agent_card(card))
    assert set(described(card)) == {"purification-batches", "chromatography-results"}
    assert "clinical" not in json.dumps(card)
    skills = {skill["id"] for skill in card["skills"]}
    assert skills == {f"{d}.{c['name']}" for d, raw in described(card).items() for c in raw["capabilities"]}


def test_the_served_card_is_the_file_but_for_what_is_filled_in_when_it_is_served(agent: RunningAgent) -> None:
    """Addresses, skills, the signature and the extension's parameters; everything else is said once, in the file."""
    written, served = json.loads(CARD_FILE.read_text(encoding="utf-8")), card_of(agent)
    assert set(served) - set(written) == {"supportedInterfaces", "skills", "signatures"}
    for interface in served.pop("supportedInterfaces"):
        assert interface["url"].rstrip("/") == agent.url
    for extension in served["capabilities"]["extensions"]:
        extension.pop("params", None)
    # protobuf leaves out what is false
    written["capabilities"] = {name: held for name, held in written["capabilities"].items() if held is not False}
    served["capabilities"] = {name: held for name, held in served["capabilities"].items() if held is not False}
    assert {name: served[name] for name in written} == written


def test_the_card_claims_what_the_agent_does_and_nothing_else(agent: RunningAgent) -> None:
    claimed = card_of(agent)["capabilities"]
    assert {name for name, held in claimed.items() if held is True} == {"streaming", "extendedAgentCard"}
    assert not claimed.get("pushNotifications")


def test_the_card_is_revalidated_by_its_etag(agent: RunningAgent) -> None:
    first = httpx.get(agent.url + "/.well-known/agent-card.json")
    again = httpx.get(agent.url + "/.well-known/agent-card.json", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


def test_the_extended_card_needs_a_client_and_shows_restricted_datasets(agent: RunningAgent, asker: Asker) -> None:
    assert httpx.get(agent.url + "/extendedAgentCard", headers={"A2A-Version": "1.0"}).status_code == 401
    card = asker.rpc("GetExtendedAgentCard", {}, as_person(asker, None)).json()["result"]
    assert "clinical-private" in described(card)


def test_with_a_discover_leaf_the_extended_card_is_the_persons(agent: RunningAgent, asker: Asker) -> None:
    settings, now = asker.settings, time.time()
    holder, remote = asker.trust.agents[settings.root_id], asker.trust.agents[settings.agent_id]
    analyst = Asker(settings, agent.url, principal="analyst")
    token = mint_discovery(
        asker.issuer,
        issuer_url=settings.issuer_url,
        principal=analyst._principal(),
        holder=holder,
        rctx={"trace_id": new_id("t")[2:]},
        now=now,
    )
    chain = derive((token,), asker.holder, audience=remote, operation=Operation("discover"), now=now)
    headers = as_person(asker, None) | {"Execution-Grant": header_value(chain)}
    card = asker.rpc("GetExtendedAgentCard", {}, headers).json()["result"]
    shown = {d: {c["name"] for c in raw["capabilities"]} for d, raw in described(card).items()}
    assert shown == {"purification-batches": {"compare_batches", "search"}, "chromatography-results": {"search"}}
    again = asker.rpc("GetExtendedAgentCard", {}, headers).json()["error"]
    assert "GRANT_REPLAYED" in again["message"]


def test_words_are_negotiated_into_a_call_and_never_into_rows(asker: Asker) -> None:
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", negotiate=True))
    words = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare batches B001 and B002"}]}
    task = task_of(asker.rpc("SendMessage", {"message": words}, asker.headers(grant)))
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "artifacts" not in task
    proposal = json.loads(base64.b64decode(task["status"]["message"]["parts"][1]["raw"]))
    assert proposal["call"] == {"dataset": DATASET, "capability": CAPABILITY, "arguments": COMPARE}


def test_a_negotiation_uses_its_leaf_up(asker: Asker) -> None:
    headers = asker.headers(asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", negotiate=True)))
    words = {"role": "ROLE_USER", "parts": [{"text": "Compare batches B001 and B002"}]}
    states = [
        decision_of(task_of(asker.rpc("SendMessage", {"message": {**words, "messageId": new_id("msg")}}, headers)))[
            "reason"
        ]
        for _ in range(2)
    ]
    assert states == ["PRINCIPAL_AUTHORIZED", "GRANT_REPLAYED"]


def test_words_without_arguments_are_answered_with_what_is_missing(asker: Asker) -> None:
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", negotiate=True))
    words = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare two batches"}]}
    task = task_of(asker.rpc("SendMessage", {"message": words}, asker.headers(grant)))
    proposal = json.loads(base64.b64decode(task["status"]["message"]["parts"][1]["raw"]))
    assert [missing["name"] for missing in proposal["missing"]] == ["batch_a", "batch_b"]


def test_a_negotiation_grant_never_opens_a_call(asker: Asker) -> None:
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", negotiate=True))
    call = asker.call(DATASET, CAPABILITY, COMPARE)
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["reason"] == "GRANT_OPERATION_MISMATCH"


def test_a_message_without_id_or_with_a_large_body_is_a_protocol_error(asker: Asker) -> None:
    nameless = asker.rpc("SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}, asker.headers())
    assert nameless.json()["error"]["code"] == -32602
    large = httpx.post(asker.url + "/", content=b"x" * 300_000, headers=asker.headers())
    assert large.status_code == 413
    deep = httpx.post(asker.url + "/", content=b"[" * 500, headers=asker.headers())
    assert deep.status_code == 400


def test_health_readiness_and_keys_are_public(agent: RunningAgent) -> None:
    assert httpx.get(agent.url + "/healthz").json() == {"status": "ok"}
    assert httpx.get(agent.url + "/readyz").json()["status"] == "ready"
    keys = httpx.get(agent.url + "/.well-known/jwks.json").json()["keys"]
    assert keys == [agent.lifecycle.service.signer.public_key.jwk()]
