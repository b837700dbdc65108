"""Approvals to test with: one requester, one call, one clock that stands still unless it is moved."""

from __future__ import annotations

from typing import Any

from approvals.approval import Approval, Asked, Requester, Ruling
from approvals.book import ApprovalBook, Origin
from approvals.seal import Seal
from approvals.store import ApprovalStore

NOW = 1_800_000_000.0
TTL = 3_600.0
AGENT = "urn:dataset-agent:remote"
SECRET = b"s" * 32
REQUESTER = Requester(issuer="https://issuer.example", subject="u-1", tenant="acme", client="urn:root")
OTHER = Requester(issuer="https://issuer.example", subject="u-2", tenant="acme", client="urn:root")
ARGUMENTS: dict[str, Any] = {"batch": "B001", "limit": 5}


def make_seal(secret: bytes = SECRET, agent: str = AGENT) -> Seal:
    return Seal(agent, [secret])


def make_book(store: ApprovalStore, ttl: float = TTL) -> ApprovalBook:
    return ApprovalBook(store, make_seal(), ttl)


def make_asked(arguments: dict[str, Any] | None = None, **changes: Any) -> Asked:
    members: dict[str, Any] = {
        "dataset": "plants",
        "dataset_version": "1.0.0",
        "revision": "r1",
        "capability": "read",
        "template_digest": "a" * 64,
        "arguments": ARGUMENTS if arguments is None else arguments,
    }
    return Asked(**(members | changes))


def make_origin(task_id: str = "task-1") -> Origin:
    return Origin(task_id, "ctx-1", "req-1", "dec-1", "0" * 32, "inv-1", "jti-1")


def make_ruling(at: float = NOW, **changes: Any) -> Ruling:
    members: dict[str, Any] = {
        "issuer": "https://issuer.example",
        "subject": "u-9",
        "decision_id": "dec-9",
        "policy_id": "P-1",
        "policy_version": "1",
        "at": at,
    }
    return Ruling(**(members | changes))


def make_approval(**changes: Any) -> Approval:
    members: dict[str, Any] = {
        "id": "apr-1",
        "task_id": "task-1",
        "request_id": "req-1",
        "decision_id": "dec-1",
        "root_jti": "jti-1",
        "requester": REQUESTER,
        "asked": make_asked(),
        "created": NOW,
        "expires": NOW + TTL,
    }
    return Approval(**(members | changes))
