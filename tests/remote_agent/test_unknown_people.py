"""Somebody an issuer vouches for and this agent does not know gets no row, no proposal and no list."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.ids import new_id
from control_plane.principals import Directory
from grants.derive import derive, header_value
from tests.grants.grants_world import claims_of, forge, root_header
from tests.running_agent import Asker, RunningAgent, decision_of, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"


@pytest.fixture(params=["unknown", "another tenant's"])
def stranger(
    request: pytest.FixtureRequest, agent: RunningAgent, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> Asker:
    """Somebody vouched for as this tenant's, whom the directory does not have, or has for another tenant."""
    person = asker._principal()
    if request.param == "unknown":
        nobody = replace(person, subject="u-nobody")
        monkeypatch.setattr(asker, "_principal", lambda: nobody)
        return asker
    service = agent.lifecycle.service
    elsewhere = Directory.of(service.world.directory.issuer, (replace(person, tenant="another"),))
    monkeypatch.setattr(service, "world", replace(service.world, directory=elsewhere))
    return asker


def test_a_call_for_a_person_nobody_knows_is_indeterminate(stranger: Asker, agent: RunningAgent) -> None:
    task = stranger.ask(DATASET, CAPABILITY, {"batch_a": "B001", "batch_b": "B002"})
    assert decision_of(task)["reason"] == "UNKNOWN_PRINCIPAL"
    assert "artifacts" not in task


def test_words_of_a_person_nobody_knows_are_not_negotiated(stranger: Asker) -> None:
    grant = stranger.grant(stranger.scope(DATASET, CAPABILITY), Operation("SendMessage", negotiate=True))
    words: dict[str, Any] = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare batches"}]}
    task = task_of(stranger.rpc("SendMessage", {"message": words}, stranger.headers(grant)))
    assert decision_of(task)["reason"] == "UNKNOWN_PRINCIPAL"
    assert task["status"]["state"] == "TASK_STATE_REJECTED"


def test_a_grant_that_authorizes_discovery_only_negotiates_nothing(asker: Asker) -> None:
    whole = asker.root_token(asker.scope(DATASET, CAPABILITY))
    root = forge(claims_of(whole) | {"authorization_details": []}, asker.issuer, root_header(asker.issuer))
    receiver = asker.trust.agents[asker.settings.agent_id]
    operation = Operation("SendMessage", negotiate=True)
    grant = header_value(derive((root,), asker.holder, audience=receiver, operation=operation, now=time.time()))
    words: dict[str, Any] = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [{"text": "Compare batches"}]}
    task = task_of(asker.rpc("SendMessage", {"message": words}, asker.headers(grant)))
    assert decision_of(task)["reason"] == "NO_ACTIVE_GRANT"


def test_a_person_nobody_knows_is_shown_no_card(stranger: Asker) -> None:
    grant = stranger.grant(stranger.scope(DATASET, CAPABILITY), Operation("discover"))
    error = stranger.rpc("GetExtendedAgentCard", {}, stranger.headers(grant)).json()["error"]
    assert "UNKNOWN_PRINCIPAL" in error["message"]


def test_a_person_who_may_ask_nothing_is_shown_no_card(asker: Asker) -> None:
    grant = asker.grant(asker.scope(DATASET, "no_such_capability"), Operation("discover"))
    error = asker.rpc("GetExtendedAgentCard", {}, asker.headers(grant)).json()["error"]
    assert "INSUFFICIENT_PRIVILEGE" in error["message"]


def test_a_leaf_of_a_known_person_still_works_beside_it(asker: Asker) -> None:
    call = asker.call(DATASET, CAPABILITY, {"batch_a": "B001", "batch_b": "B002"})
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    assert decision_of(task_of(asker.send(call, asker.headers(grant))))["reason"] == "PRINCIPAL_AUTHORIZED"
