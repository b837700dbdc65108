"""Approvers: who they are, what they see, that they are never the requester, and that each decision is evidence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from approvals.approval import State
from contract.errors import Category, Component, DatasetAgentError
from contract.verdict import NotGranted, Reason
from control_plane.identity import issue_identity
from dataset_agent.login import identity_token
from grants.key_files import FileSigner
from grants.state import RevocationKind
from remote_agent.admin_approvals import served_desk
from remote_agent.approval_desk import ApprovalDesk
from remote_agent.approvers import Approvers
from tests.remote_agent.long_world import Client, Held, held
from tests.remote_agent.review_world import (
    DATASET,
    DONE,
    POLICY,
    REJECTED,
    WAITS,
    again,
    approval_of,
    ask,
    reviewed_agent,
    state_of,
)
from tests.running_agent import RunningAgent, decision_of, result_of

pytestmark = pytest.mark.live
A = {"batch_a": "B001", "batch_b": "B002"}
ADMIN = "admin-token-of-more-than-32-characters"
APPROVER = "clinical_reviewer"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with reviewed_agent(tmp_path_factory.mktemp("desk"), admin_token=ADMIN) as served:
        yield served


@pytest.fixture(scope="module")
def rpc(agent: RunningAgent) -> Client:
    return Client(agent)


@pytest.fixture
def counted(agent: RunningAgent) -> Iterator[Held]:
    with held(agent) as executions:
        executions.release()
        yield executions


def token(agent: RunningAgent, name: str = APPROVER) -> str:
    return identity_token(agent.settings, name, 60, audience=agent.settings.agent_id)


def old_token(agent: RunningAgent, issued: float, subject: str = "u-clin-01") -> str:
    """Of the approver, as it was issued then."""
    signer, settings = FileSigner.load(agent.settings.issuer_dir / "identity.jwk"), agent.settings
    return issue_identity(
        signer, issuer_url=settings.issuer_url, subject=subject, audience=settings.agent_id, now=issued
    )


def at_door(
    agent: RunningAgent, what: str, body: dict[str, Any] | None = None, *, admin: str = ADMIN, **params: str
) -> httpx.Response:
    return httpx.request(
        "GET" if body is None else "POST",
        f"{agent.url}/admin/approvals/{what}",
        params=params,
        json=body,
        headers={"Authorization": f"Bearer {admin}"},
        timeout=30,
    )


def decide(agent: RunningAgent, task: dict[str, Any], what: str = "approve", **more: Any) -> dict[str, Any]:
    """Over the admin door, as ``clinical_reviewer`` unless ``person`` says else."""
    body = {"id": approval_of(agent, task).id, "person": more.pop("person", None) or token(agent), **more}
    answered = at_door(agent, what, body)
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


def rows_since(agent: RunningAgent, before: int) -> list[dict[str, Any]]:
    return [dict(row.cells) for row in agent.rows()[before:]]


def test_what_waits_is_listed_without_its_arguments(agent: RunningAgent, rpc: Client) -> None:
    approval = approval_of(agent, ask(rpc, **A))
    told = at_door(agent, "list").json()["approvals"]
    (line,) = [one for one in told if one["id"] == approval.id]
    assert (line["state"], line["capability"], line["requester"]) == ("pending", "compare_batches", "process_engineer")
    assert "B001" not in json.dumps(told)


def test_an_approver_sees_what_they_decide_about(agent: RunningAgent, rpc: Client) -> None:
    task = ask(rpc, **A)
    shown = decide(agent, task, "show")["approval"]
    assert (shown["arguments"]["batch_a"], shown["task_id"]) == ("B001", task["id"])
    assert [one["name"] for one in shown["parameters"]] == ["batch_a", "batch_b"]


def test_approved_by_somebody_else_it_runs_and_the_evidence_is_one_chain(
    agent: RunningAgent, rpc: Client, counted: Held
) -> None:
    before = len(agent.rows())
    task = ask(rpc, **A)
    done = decide(agent, task, why="the batch record was checked")
    assert (done["approval"]["state"], done["decision"]["policy_id"]) == ("approved", POLICY)
    assert (state_of(again(rpc, task, **A)), counted.began) == (DONE, 1)
    asked, approved, ran = rows_since(agent, before)
    assert [row["kind"] for row in (asked, approved, ran)] == ["terminal", "human_approval_granted", "terminal"]
    assert [row["reason"] for row in (asked, approved, ran)] == [
        "REVIEW_REQUIRED",
        "PRINCIPAL_AUTHORIZED",
        "PRINCIPAL_AUTHORIZED",
    ]
    assert (approved["caused_by"], ran["caused_by"]) == (asked["decision_id"], approved["decision_id"])
    assert approved["request_id"] == approval_of(agent, task).id
    assert {row["task_id"] for row in (asked, approved, ran)} == {task["id"]}
    assert "checked" not in json.dumps([asked, approved, ran])
    assert done["evidence"]["index"] == before + 1


def test_denied_it_is_refused_and_the_denial_is_evidence(agent: RunningAgent, rpc: Client, counted: Held) -> None:
    before = len(agent.rows())
    task = ask(rpc, **A)
    assert decide(agent, task, "deny", why="no")["approval"]["state"] == "denied"
    refused = again(rpc, task, **A)
    assert (state_of(refused), decision_of(refused)["reason"], counted.began) == (REJECTED, "APPROVAL_DENIED", 0)
    asked, denied, _ = rows_since(agent, before)
    assert (denied["kind"], denied["caused_by"]) == ("human_approval_denied", asked["decision_id"])
    assert (denied["verdict"], denied["reason"]) == ("REFUSED", "APPROVAL_DENIED")


@pytest.mark.parametrize(
    ("who", "policy"),
    [("process_engineer", "AD-POL-011"), ("analyst", "AD-POL-005"), ("external_auditor", "BPD-DATA-009")],
)
@pytest.mark.parametrize("what", ["show", "approve", "deny"])
def test_the_requester_and_who_is_not_permitted_decide_nothing_and_see_nothing(
    agent: RunningAgent, rpc: Client, who: str, policy: str, what: str
) -> None:
    task = ask(rpc, **A)
    before = len(agent.rows())
    told = decide(agent, task, what, person=token(agent, who))
    assert (told["approval"], told["decision"]["verdict"], told["decision"]["policy_id"]) == (None, "REFUSED", policy)
    assert "B001" not in json.dumps(told)
    tried = rows_since(agent, before)
    assert [row["kind"] for row in tried] == ["blocked"]
    assert tried[0]["caused_by"] == approval_of(agent, task).decision_id
    assert approval_of(agent, task).state is State.PENDING


@pytest.mark.parametrize("what", ["show", "approve", "deny"])
def test_who_signs_in_and_is_in_no_directory_is_refused_and_that_is_recorded(
    agent: RunningAgent, rpc: Client, what: str
) -> None:
    task = ask(rpc, **A)
    before = len(agent.rows())
    told = decide(agent, task, what, person=old_token(agent, time.time(), "u-nobody"))
    assert (told["approval"], told["decision"]["reason"]) == (None, "UNKNOWN_PRINCIPAL")
    (tried,) = rows_since(agent, before)
    assert (tried["kind"], tried["reason"], tried["request_id"]) == (
        "blocked",
        "UNKNOWN_PRINCIPAL",
        approval_of(agent, task).id,
    )


def test_an_approver_who_looks_leaves_no_row(agent: RunningAgent, rpc: Client) -> None:
    task = ask(rpc, **A)
    before = len(agent.rows())
    assert decide(agent, task, "show")["decision"]["verdict"] == "GRANTED"
    assert rows_since(agent, before) == []


@pytest.mark.parametrize("what", ["show", "approve", "deny"])
def test_an_approver_who_was_revoked_since_they_signed_in_decides_nothing_and_sees_nothing(
    agent: RunningAgent, rpc: Client, what: str
) -> None:
    task, now = ask(rpc, **A), time.time()
    signed_in = [old_token(agent, now - ago) for ago in (100, 20)]
    state = agent.lifecycle.service.state
    agent.run(state.revoke(RevocationKind.SUBJECT, "u-clin-01", not_before=now - 50))
    before = len(agent.rows())
    told = decide(agent, task, what, person=signed_in[0])
    assert (told["approval"], told["decision"]["reason"]) == (None, "GRANT_REVOKED")
    assert "B001" not in json.dumps(told)
    tried = rows_since(agent, before)
    assert [(row["kind"], row["reason"]) for row in tried] == [("blocked", "GRANT_REVOKED")]
    assert approval_of(agent, task).state is State.PENDING
    assert decide(agent, task, what, person=signed_in[1])["decision"]["verdict"] == "GRANTED"


def test_where_nobody_can_say_who_was_revoked_nobody_decides(
    agent: RunningAgent, rpc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, state = ask(rpc, **A), agent.lifecycle.service.state

    async def away(_: object) -> Any:
        raise DatasetAgentError(Component.GRANTS, Category.UNAVAILABLE, "grants.state.unavailable", "it is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(state), "revocations", away)
        told = decide(agent, task)
    assert (told["approval"], told["decision"]["reason"]) == (None, "STATE_UNAVAILABLE")
    assert approval_of(agent, task).state is State.PENDING


def test_edited_the_edited_call_is_the_approved_one(agent: RunningAgent, rpc: Client) -> None:
    task = ask(rpc, **A)
    told = decide(agent, task, edits={"batch_b": "B003"})["approval"]
    assert (told["arguments"]["batch_b"], told["approved_arguments"]["batch_b"]) == ("B002", "B003")
    assert state_of(again(rpc, task, **A)) == WAITS
    done = again(rpc, task, batch_a="B001", batch_b="B003")
    assert [row[0] for row in result_of(done)["rows"]] == ["B001", "B003"]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ({"batch_b": 7}, "ARGUMENTS_INVALID"),
        ({"colour": "red"}, "ARGUMENTS_INVALID"),
        ({"batch_b": None}, "ARGUMENTS_MISSING"),
    ],
)
def test_an_edit_is_validated_as_a_call_is(
    agent: RunningAgent, rpc: Client, edits: dict[str, Any], reason: str
) -> None:
    task = ask(rpc, **A)
    told = decide(agent, task, edits=edits)
    assert (told["approval"], told["decision"]["reason"]) == (None, reason)
    assert approval_of(agent, task).state is State.PENDING


def test_what_was_decided_is_decided_once(agent: RunningAgent, rpc: Client) -> None:
    task = ask(rpc, **A)
    decide(agent, task, "deny")
    before = len(agent.rows())
    for what in ("approve", "deny"):
        assert decide(agent, task, what)["decision"]["reason"] == "APPROVAL_ALREADY_DECIDED"
    assert rows_since(agent, before) == []


def test_a_decision_that_lost_a_race_takes_no_effect_and_its_row_is_followed_by_one_that_says_so(
    agent: RunningAgent, rpc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ask(rpc, **A)
    book = agent.lifecycle.service.approvals
    inner = book.approve

    async def beaten(kept: Any, ruling: Any, arguments: Any, now: float) -> Any:
        await book.deny(kept, ruling, now)
        return await inner(kept, ruling, arguments, now)

    before = len(agent.rows())
    monkeypatch.setattr(book, "approve", beaten)
    assert decide(agent, task)["decision"]["reason"] == "APPROVAL_ALREADY_DECIDED"
    approved, nothing = rows_since(agent, before)
    assert [approved["kind"], nothing["kind"]] == ["human_approval_granted", "blocked"]
    assert nothing["caused_by"] == approved["decision_id"]
    assert approval_of(agent, task).state is State.DENIED


def test_where_evidence_cannot_be_written_nothing_is_decided(
    agent: RunningAgent, rpc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(row: Any) -> Any:
        raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the disk is full")

    task = ask(rpc, **A)
    for what, who in (("approve", APPROVER), ("deny", APPROVER), ("show", "analyst")):
        with monkeypatch.context() as patch:
            patch.setattr(agent.lifecycle.service.ledger, "append_async", full)
            told = decide(agent, task, what, person=token(agent, who))
            assert told["decision"]["reason"] == "EVIDENCE_UNAVAILABLE"
    assert approval_of(agent, task).state is State.PENDING


def test_a_token_that_is_not_an_approvers_opens_nothing(agent: RunningAgent, rpc: Client) -> None:
    """Of the root agent's door, of nobody, and without the admin token."""
    approval_id = approval_of(agent, ask(rpc, **A)).id
    for_root = identity_token(agent.settings, APPROVER, 60)
    mine = token(agent)
    edited = mine[:-4] + ("AAAA" if mine[-4:] != "AAAA" else "BBBB")
    for person in (for_root, edited, "x", "a.b.c"):
        assert at_door(agent, "approve", {"id": approval_id, "person": person}).status_code == 401
    assert at_door(agent, "approve", {"id": approval_id, "person": mine}, admin="wrong").status_code == 401
    assert at_door(agent, "list", admin="wrong").status_code == 401


@pytest.mark.parametrize(
    ("what", "body", "status"),
    [
        ("approve", {"id": "apr-unknown", "person": "TOKEN"}, 404),
        ("approve", {"id": "apr-unknown"}, 400),
        ("approve", {"id": 7, "person": "TOKEN"}, 400),
        ("show", {"id": "", "person": "TOKEN"}, 400),
        ("show", {"id": "ID", "person": "t" * 16_385}, 400),
        ("deny", {"id": "ID", "person": "TOKEN", "why": 5}, 400),
        ("approve", {"id": "ID", "person": "TOKEN", "edits": []}, 400),
        ("approve", {"id": "ID", "person": "TOKEN", "why": "w" * 501}, 400),
        ("approve", {"id": "ID", "person": "TOKEN", "confirmed": True}, 400),
        ("deny", {"id": "ID", "person": "TOKEN", "edits": {}}, 400),
        ("show", {"id": "ID", "person": "TOKEN", "why": "x"}, 400),
        ("list", {"id": "ID"}, 404),
    ],
)
def test_a_request_that_is_none_is_refused(
    agent: RunningAgent, rpc: Client, what: str, body: dict[str, Any], status: int
) -> None:
    told = {"TOKEN": token(agent)}
    if "ID" in body.values():
        told["ID"] = approval_of(agent, ask(rpc, **A)).id
    given = {name: told.get(value, value) if isinstance(value, str) else value for name, value in body.items()}
    assert at_door(agent, what, given).status_code == status


def test_the_list_takes_a_flag_and_nothing_else(agent: RunningAgent) -> None:
    for params, status in (({"all": "true"}, 200), ({"all": "yes"}, 400), ({"every": "true"}, 400)):
        assert at_door(agent, "list", **params).status_code == status


def test_a_reason_that_is_too_long_is_refused_before_anything_is_recorded(agent: RunningAgent, rpc: Client) -> None:
    approval_id = approval_of(agent, ask(rpc, **A)).id
    service = agent.lifecycle.service
    desk = served_desk(service, Approvers(agent.settings, lambda: service.trust))
    before = len(agent.rows())
    with pytest.raises(DatasetAgentError, match="at most 500"):
        agent.run(desk.deny(approval_id, token(agent), why="w" * 501))
    assert rows_since(agent, before) == []


@pytest.mark.parametrize(
    ("settings", "subject", "code"),
    [
        ({"dev_issuer": False}, "u-clin-01", "remote_agent.approvals.nobody"),
        ({"issuer_url": "https://other.example"}, "u-clin-01", "remote_agent.approvals.nobody"),
        ({}, "u-nobody", None),
        ({}, "u-clin-01", ""),
    ],
)
async def test_only_a_person_of_the_directory_by_a_token_that_is_accepted_here_is_an_approver(
    agent: RunningAgent, settings: dict[str, Any], subject: str, code: str | None
) -> None:
    """``code`` is of the fault, ``None`` of a person whom the directory does not know, empty of an approver."""
    service = agent.lifecycle.service
    given = agent.settings.model_copy(update=settings)
    people = Approvers(given, lambda: service.trust)
    signer = FileSigner.load(agent.settings.issuer_dir / "identity.jwk")
    now = service.clock()
    shown = issue_identity(
        signer, issuer_url=agent.settings.issuer_url, subject=subject, audience=agent.settings.agent_id, now=now
    )
    verifying = people.verified(shown, service.world.directory, now)
    if code == "":
        assert (await verifying).name == APPROVER
    elif code is None:
        with pytest.raises(NotGranted) as stop:
            await verifying
        assert stop.value.reason is Reason.UNKNOWN_PRINCIPAL
    else:
        with pytest.raises(DatasetAgentError) as fault:
            await verifying
        assert fault.value.code == code
    await people.close()


def test_the_end_of_an_id_is_enough_where_it_is_one(agent: RunningAgent, rpc: Client) -> None:
    task = ask(rpc, **A)
    approval_id = approval_of(agent, task).id
    for text, status in ((approval_id[-8:], 200), (approval_id[-7:], 404)):
        assert at_door(agent, "show", {"id": text, "person": token(agent)}).status_code == status


def test_what_would_be_refused_to_its_requester_now_cannot_be_approved(
    agent: RunningAgent, rpc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ask(rpc, **A)
    world = agent.lifecycle.service.world
    directory = world.directory

    class _Without:
        """The directory without the requester's entitlements, or without the requester."""

        def __init__(self, principal: Any) -> None:
            self._principal = principal

        def find(self, issuer: str, subject: str) -> Any:
            return self._principal if subject == "u-eng-01" else directory.find(issuer, subject)

    engineer = directory.named("process_engineer")
    assert engineer is not None
    for principal, reason in (
        (replace(engineer, entitlements={}), "INSUFFICIENT_PRIVILEGE"),
        (None, "UNKNOWN_PRINCIPAL"),
        (replace(engineer, tenant="other"), "UNKNOWN_PRINCIPAL"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(agent.lifecycle.service, "world", replace(world, directory=_Without(principal)))  # type: ignore[arg-type]
            assert decide(agent, task)["decision"]["reason"] == reason
    assert approval_of(agent, task).state is State.PENDING


def test_a_template_that_was_changed_since_cannot_be_approved(
    agent: RunningAgent, rpc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ask(rpc, **A)
    inner = ApprovalDesk._case

    async def changed(self: Any, *args: Any) -> Any:
        case = await inner(self, *args)
        approval = case.approval.model_copy(
            update={"asked": case.approval.asked.model_copy(update={"template_digest": "f" * 64})}
        )
        return replace(case, kept=replace(case.kept, approval=approval))

    monkeypatch.setattr(ApprovalDesk, "_case", changed)
    assert decide(agent, task)["decision"]["reason"] == "APPROVAL_MISMATCH"
    assert approval_of(agent, task).asked.dataset == DATASET
