"""What an approval is good for: one call of one requester, once, in time, and as the approver wanted it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from approvals.approval import (
    Approval,
    Standing,
    State,
    approved,
    check_open,
    denied,
    digest_of,
    judge,
    used,
    withdrawn,
)
from approvals.book import ApprovalBook, Approved, Waits
from approvals.seal import Damaged, Seal
from approvals.store import MemoryApprovals, StoreUnavailable
from contract.canonical import canonical_json, sha256_hex
from contract.verdict import NotGranted, Reason
from tests.approvals.approvals_world import (
    AGENT,
    ARGUMENTS,
    NOW,
    OTHER,
    REQUESTER,
    SECRET,
    TTL,
    make_approval,
    make_asked,
    make_book,
    make_origin,
    make_ruling,
    make_seal,
)

END = NOW + TTL


def reason_of(work: Any, *arguments: Any) -> Reason:
    with pytest.raises(NotGranted) as stop:
        work(*arguments)
    return stop.value.reason


def yes(approval: Approval | None = None, arguments: dict[str, Any] | None = None) -> Approval:
    return approved(approval or make_approval(), make_ruling(), ARGUMENTS if arguments is None else arguments, NOW)


def test_what_was_approved_runs_and_what_was_not_waits() -> None:
    assert judge(make_approval(), REQUESTER, make_asked(), NOW) is Standing.WAITING
    assert judge(yes(), REQUESTER, make_asked(), NOW) is Standing.APPROVED


@pytest.mark.parametrize("approval", [make_approval(), yes()])
@pytest.mark.parametrize(
    ("requester", "asked"),
    [
        (OTHER, make_asked()),
        (REQUESTER.model_copy(update={"tenant": "other"}), make_asked()),
        (REQUESTER.model_copy(update={"client": "urn:other"}), make_asked()),
        (REQUESTER.model_copy(update={"issuer": "https://other.example"}), make_asked()),
        (REQUESTER, make_asked({**ARGUMENTS, "limit": 6})),
        (REQUESTER, make_asked({})),
        (REQUESTER, make_asked(capability="other")),
        (REQUESTER, make_asked(dataset="other")),
        (REQUESTER, make_asked(template_digest="b" * 64)),
    ],
)
def test_it_is_of_no_other_call_and_of_nobody_else(approval: Approval, requester: Any, asked: Any) -> None:
    assert reason_of(judge, approval, requester, asked, NOW) is Reason.APPROVAL_MISMATCH


def test_a_new_revision_of_the_data_is_for_admission_to_judge() -> None:
    asked = make_asked(revision="r2", dataset_version="1.0.1")
    assert judge(yes(), REQUESTER, asked, NOW) is Standing.APPROVED


@pytest.mark.parametrize(
    ("approval", "reason"),
    [
        (denied(make_approval(), make_ruling(), NOW), Reason.APPROVAL_DENIED),
        (used(yes(), NOW), Reason.APPROVAL_ALREADY_DECIDED),
        (withdrawn(yes()), Reason.APPROVAL_ALREADY_DECIDED),
        (withdrawn(make_approval()), Reason.APPROVAL_ALREADY_DECIDED),
    ],
)
def test_what_is_over_is_told_by_its_own_reason(approval: Approval, reason: Reason) -> None:
    assert reason_of(judge, approval, REQUESTER, make_asked(), NOW) is reason
    assert reason_of(judge, approval, REQUESTER, make_asked(), END) is reason


@pytest.mark.parametrize("approval", [make_approval(), yes()])
def test_what_was_not_decided_or_not_used_in_time_has_expired(approval: Approval) -> None:
    assert judge(approval, REQUESTER, make_asked(), END - 0.001)
    assert reason_of(judge, approval, REQUESTER, make_asked(), END) is Reason.APPROVAL_EXPIRED


def test_nobody_decides_twice_nor_too_late() -> None:
    ruling = make_ruling()
    for decided in (yes(), denied(make_approval(), ruling, NOW), used(yes(), NOW), withdrawn(make_approval())):
        assert decided is not None
        assert reason_of(approved, decided, ruling, ARGUMENTS, NOW) is Reason.APPROVAL_ALREADY_DECIDED
        assert reason_of(denied, decided, ruling, NOW) is Reason.APPROVAL_ALREADY_DECIDED
    assert reason_of(approved, make_approval(), ruling, ARGUMENTS, END) is Reason.APPROVAL_EXPIRED
    assert reason_of(denied, make_approval(), ruling, END) is Reason.APPROVAL_EXPIRED
    check_open(make_approval(), END - 0.001)


def test_only_what_is_approved_is_used_and_only_once() -> None:
    once = used(yes(), NOW)
    assert once.state is State.USED
    for other in (once, make_approval(), denied(make_approval(), make_ruling(), NOW)):
        assert reason_of(used, other, NOW) is Reason.APPROVAL_ALREADY_DECIDED
    assert reason_of(used, yes(), END) is Reason.APPROVAL_EXPIRED


def test_what_is_used_or_denied_is_not_taken_back() -> None:
    assert withdrawn(used(yes(), NOW)) is None
    assert withdrawn(denied(make_approval(), make_ruling(), NOW)) is None


def test_edited_arguments_are_what_is_approved_and_the_asked_ones_are_not() -> None:
    edited = yes(arguments={**ARGUMENTS, "limit": 1})
    assert judge(edited, REQUESTER, make_asked(), NOW) is Standing.EDITED
    assert judge(edited, REQUESTER, make_asked({**ARGUMENTS, "limit": 1}), NOW) is Standing.APPROVED
    assert reason_of(judge, edited, REQUESTER, make_asked({**ARGUMENTS, "limit": 2}), NOW) is Reason.APPROVAL_MISMATCH


def test_to_edit_to_the_same_is_no_edit() -> None:
    assert yes(arguments={"limit": 5.0, "batch": "B001"}).edited is None


def test_an_approval_that_contradicts_itself_is_none() -> None:
    for members in ({"state": "approved"}, {"ruling": make_ruling()}, {"state": "used"}, {"beside": 1}):
        with pytest.raises(ValidationError):
            make_approval(**members)


def test_what_the_requester_is_told_holds_no_argument_and_no_name() -> None:
    told = str(yes(arguments={"batch": "B777"}).told())
    assert not any(secret in told for secret in ("B777", "B001", "u-1", "u-9"))
    assert "B001" not in repr(make_approval())


VALUES = st.one_of(st.text(max_size=8), st.integers(-(2**40), 2**40), st.booleans(), st.none())
CALLS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3)


@settings(max_examples=200, deadline=None)
@given(CALLS, CALLS, CALLS)
def test_exactly_the_approved_arguments_run(asked: dict[str, Any], edit: dict[str, Any], sent: dict[str, Any]) -> None:
    approval = make_approval(asked=make_asked(asked))
    given_ = approved(approval, make_ruling(), edit, NOW)
    try:
        runs = judge(given_, REQUESTER, make_asked(sent), NOW) is Standing.APPROVED
    except NotGranted:
        runs = False
    assert runs == (digest_of(sent) == digest_of(edit))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["approve", "deny", "withdraw", "use", "late"]), max_size=6))
def test_whatever_is_tried_in_whatever_order_it_is_used_at_most_once_and_only_after_a_yes(steps: list[str]) -> None:
    approval, uses, said_yes = make_approval(), 0, False
    for step in steps:
        now = END if step == "late" else NOW
        try:
            if step == "approve":
                approval, said_yes = approved(approval, make_ruling(), ARGUMENTS, now), True
            elif step == "deny":
                approval = denied(approval, make_ruling(), now)
            elif step == "withdraw":
                approval = withdrawn(approval) or approval
            else:
                approval = used(approval, now)
                uses += 1
        except NotGranted:
            continue
    assert uses <= (1 if said_yes else 0)


# the seal


def test_a_seal_opens_what_it_closed_and_shows_nothing_of_it() -> None:
    held = make_seal().close(make_approval(), version=1, until=NOW, owner="o")
    assert make_seal().open(held) == make_approval()
    assert not any(secret in held.sealed for secret in ("B001", "plants", "u-1"))


@pytest.mark.parametrize(
    "moved", [{"id": "apr-2"}, {"task_id": "task-2"}, {"version": 2}, {"sealed": "AAAA"}, {"sealed": "no base64!"}]
)
def test_a_record_that_was_moved_or_edited_does_not_open(moved: dict[str, Any]) -> None:
    held = make_seal().close(make_approval(), version=1, until=NOW, owner="o")
    with pytest.raises(Damaged):
        make_seal().open(replace(held, **moved))
    for at in (0, len(held.sealed) // 2):
        other = "A" if held.sealed[at] != "A" else "B"
        with pytest.raises(Damaged):
            make_seal().open(replace(held, sealed=held.sealed[:at] + other + held.sealed[at + 1 :]))


def test_who_has_another_secret_or_is_another_agent_makes_no_record() -> None:
    held = make_seal(b"x" * 32).close(yes(), version=1, until=NOW, owner="o")
    with pytest.raises(Damaged):
        make_seal().open(held)
    with pytest.raises(Damaged):
        make_seal().open(make_seal(agent="urn:other").close(yes(), version=1, until=NOW, owner="o"))


def test_an_earlier_secret_opens_what_it_closed() -> None:
    held = make_seal().close(make_approval(), version=1, until=NOW, owner="o")
    rotated = Seal(AGENT, [b"n" * 32, b"s" * 32])
    assert rotated.open(held) == make_approval()
    for secrets in ([], [b"s" * 31], [b"s" * 32, b""]):
        with pytest.raises(ValueError, match="32 bytes"):
            Seal(AGENT, secrets)


# the book


async def _asked_for(book: ApprovalBook, task: str = "task-1") -> str:
    return (await book.ask(REQUESTER, make_asked(), make_origin(task), NOW)).approval.id


async def _decide(book: ApprovalBook, approval_id: str, arguments: dict[str, Any] = ARGUMENTS) -> None:
    kept = await book.find(approval_id)
    assert kept is not None
    await book.approve(kept, make_ruling(), arguments, NOW)


async def test_asked_decided_looked_up_and_used_once_by_many_at_once() -> None:
    book = make_book(MemoryApprovals())
    approval_id = await _asked_for(book)
    assert isinstance(await book.look("task-1", REQUESTER, make_asked(), NOW), Waits)
    await _decide(book, approval_id)
    looks = [await book.look("task-1", REQUESTER, make_asked(), NOW) for _ in range(8)]
    assert all(isinstance(look, Approved) and look.decision_id == "dec-9" for look in looks)
    ends = await asyncio.gather(*(book.use(look, NOW) for look in looks), return_exceptions=True)  # type: ignore[arg-type]
    assert [end for end in ends if end is None] == [None]
    lost = [end.reason for end in ends if isinstance(end, NotGranted)]
    assert lost == [Reason.APPROVAL_ALREADY_DECIDED] * 7
    with pytest.raises(NotGranted, match="used already"):
        await book.look("task-1", REQUESTER, make_asked(), NOW)
    assert len(await book.all()) == 1


async def test_a_task_without_an_approval_has_none() -> None:
    assert await make_book(MemoryApprovals()).look("task-1", REQUESTER, make_asked(), NOW) is None


async def test_what_was_edited_is_proposed() -> None:
    book = make_book(MemoryApprovals())
    await _decide(book, await _asked_for(book), {"batch": "B002", "limit": 1})
    look = await book.look("task-1", REQUESTER, make_asked(), NOW)
    assert isinstance(look, Waits)
    assert look.proposed == {"batch": "B002", "limit": 1}


async def test_of_two_who_decide_at_once_one_is_told_that_it_was_decided() -> None:
    book = make_book(MemoryApprovals())
    kept = await book.find(await _asked_for(book))
    assert kept is not None
    await book.deny(kept, make_ruling(), NOW)
    with pytest.raises(NotGranted) as stop:
        await book.approve(kept, make_ruling(), ARGUMENTS, NOW)
    assert stop.value.reason is Reason.APPROVAL_ALREADY_DECIDED
    assert [one.state for one in await book.all()] == [State.DENIED]


async def test_who_asked_takes_it_back_also_when_it_is_approved_meanwhile() -> None:
    book = make_book(MemoryApprovals())
    kept = await book.find(approval_id := await _asked_for(book))
    assert kept is not None
    await _decide(book, approval_id)
    assert await book.withdraw(kept)
    assert not await book.withdraw(kept)
    with pytest.raises(NotGranted, match="withdrawn"):
        await book.look("task-1", REQUESTER, make_asked(), NOW)


async def test_it_is_told_for_a_day_after_its_end_what_became_of_it_and_then_forgotten() -> None:
    store = MemoryApprovals()
    book = make_book(store)
    await _asked_for(book)
    await book.ask(OTHER, make_asked(), make_origin("task-2"), END + 86_399)
    with pytest.raises(NotGranted) as stop:
        await book.look("task-1", REQUESTER, make_asked(), END + 86_399)
    assert stop.value.reason is Reason.APPROVAL_EXPIRED
    await book.ask(OTHER, make_asked(), make_origin("task-3"), END + 86_400)
    assert await book.look("task-1", REQUESTER, make_asked(), END + 86_400) is None


async def test_a_record_of_another_hand_is_no_approval_and_stops_no_list() -> None:
    store = MemoryApprovals()
    book = make_book(store)
    kept = await book.find(await _asked_for(book))
    assert kept is not None
    forged = make_seal(b"x" * 32).close(yes(kept.approval), version=2, until=kept.held.until, owner=kept.held.owner)
    assert await store.swap(kept.held, forged)
    with pytest.raises(NotGranted) as stop:
        await book.look("task-1", REQUESTER, make_asked(), NOW)
    assert stop.value.reason is Reason.STATE_UNAVAILABLE
    assert await book.all() == []


async def test_too_many_that_wait_are_refused_before_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.store.MOST_OF_ONE", 1)
    book = make_book(MemoryApprovals())
    await _asked_for(book)
    with pytest.raises(NotGranted) as stop:
        await _asked_for(book, "task-2")
    assert stop.value.reason is Reason.REVIEW_REQUIRED


async def test_whose_a_record_is_cannot_be_tried_out_by_who_has_the_store_and_stays_so_under_a_new_secret() -> None:
    book = make_book(MemoryApprovals())
    found = await book.find(await _asked_for(book))
    assert found is not None
    told = [REQUESTER.issuer, REQUESTER.subject, REQUESTER.tenant, REQUESTER.client]
    assert found.held.owner not in sha256_hex(canonical_json(told))
    assert make_seal().owner(REQUESTER) == found.held.owner != make_seal(b"x" * 32).owner(REQUESTER)
    assert make_seal().owner(REQUESTER.model_copy(update={"tenant": "other"})) != found.held.owner
    book.take_over(Seal(AGENT, [b"x" * 32, SECRET]))
    await _decide(book, found.approval.id)
    after = await book.find(found.approval.id)
    assert after is not None and (after.approval.state, after.held.owner) == (State.APPROVED, found.held.owner)


async def test_of_who_is_forgotten_no_record_is_left_whether_they_asked_or_decided() -> None:
    book = make_book(MemoryApprovals())
    one, other = await _asked_for(book), await _asked_for(book, "task-2")
    await _decide(book, one)
    ruling = make_ruling()
    assert await book.forget(("https://nobody.example", ruling.subject)) == 0
    assert await book.forget((ruling.issuer, ruling.subject)) == 1
    assert [approval.id for approval in await book.all()] == [other]
    assert [approval.id for approval in await book.of_person(REQUESTER.person)] == [other]
    assert await book.forget(REQUESTER.person) == 1
    assert await book.all() == []


async def test_a_store_that_is_away_is_a_store_that_does_not_answer() -> None:
    class _Away(MemoryApprovals):
        async def of_task(self, task_id: str) -> None:
            raise StoreUnavailable("away")

    with pytest.raises(NotGranted) as stop:
        await make_book(_Away()).look("task-1", REQUESTER, make_asked(), NOW)
    assert stop.value.reason is Reason.STATE_UNAVAILABLE
