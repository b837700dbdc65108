"""Provenance trees of any shape, every statement signed by its own agent with a receipt that holds."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from contract.signing import PublicKey
from contract.verdict import Decision, Reason
from evidence.checkpoint import Checkpoint, Receipt
from evidence.dsse import payload_of, sign_envelope
from evidence.merkle import Frontier, leaf_hash
from evidence.predicate import Statement, Upstream
from evidence.provenance import read_statement, verify_provenance
from evidence.statement import Draft, draft, relay, upstream_of
from evidence.tree import Branch, verify_tree
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import BODY, DOCUMENT, INVOCATION, NOW, SeedSigner, draft_members

ROOT = "urn:dataset-agent:root"
TRACE = INVOCATION.trace_id
Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Node:
    """One agent that answered, and the agents it asked to complete its answer.

    ``thread`` are the members of the grant, and ``trace_id``, that differ from everybody's.
    """

    agent: int
    below: tuple[Node, ...] = ()
    thread: tuple[tuple[str, str], ...] = ()


def agent_id(number: int) -> str:
    return f"urn:dataset-agent:agent-{number}"


@cache
def signer_of(agent: str) -> SeedSigner:
    return SeedSigner(hashlib.sha256(agent.encode()).digest()[0])


@cache
def receipt_by(agent: str) -> Receipt:
    """A receipt of a ledger with one row."""
    leaf = leaf_hash(agent.encode())
    grown = Frontier(0, ()).append(leaf)
    time = "2027-01-15T08:00:00.000000Z"
    checkpoint = Checkpoint.sign(signer_of(agent), origin=agent, size=1, root=grown.root(), time=time)
    return Receipt(0, leaf, checkpoint, (), bytes(32))


def keys_of(*agents: str) -> dict[str, tuple[PublicKey, ...]]:
    return {agent: (signer_of(agent).public_key,) for agent in agents}


KEYS = keys_of(ROOT, *(agent_id(number) for number in range(8)))


def grown(node: Node, client: str = ROOT, path: str = "0", change: Change | None = None) -> dict[str, Any]:
    """The signed envelope of a node and all below it; ``change`` edits its statement before it signs."""
    name = agent_id(node.agent)
    stated = [_stated(below, name, f"{path}.{place}") for place, below in enumerate(node.below)]
    thread = {"root_jti": "jti-root", "txn": "txn-1", "trace_id": TRACE} | dict(node.thread)
    authority = make_authority(
        client=client,
        leaf_jti=f"jti-{path}",
        **{member: value for member, value in thread.items() if member != "trace_id"},
    )
    made = draft(authority, **draft_members(agent_id=name, invocation=replace(INVOCATION, trace_id=thread["trace_id"])))
    statement = made.statement(receipt_by(name))
    if stated:  # not drafted with them: no agent drafts a tree that does not hold
        statement["predicate"]["upstream"] = [item.model_dump(mode="json") for item in stated]
        statement["predicate"]["execution"]["tool_origin"] = "A2A"
    statement["predicate"]["grant"]["leaf_digest"] = hashlib.sha256(path.encode()).hexdigest()
    if change is not None:
        change(statement)
    return sign_envelope(statement, signer_of(name))


def relayed(envelope: dict[str, Any], change: Change | None = None) -> dict[str, Any]:
    """What a root agent that judges nothing makes of the answer of the agent it asked."""
    told = opened(envelope)["predicate"]
    statement = {
        **opened(envelope),
        "predicate": {
            **told,
            "agent": {"id": ROOT},
            "decision": told["decision"] | {"policy_id": "BPD-DATA-001"},
            "execution": told["execution"] | {"tool_origin": "A2A"},
            "invocation": INVOCATION.to_json(),
            "ledger": receipt_by(ROOT).to_json(),
            "upstream": [upstream_of(unverified(envelope), envelope, "task-0").model_dump(mode="json")],
        },
    }
    if change is not None:
        change(statement)
    return sign_envelope(statement, signer_of(ROOT))


def drafted_relay(envelope: dict[str, Any]) -> Draft:
    """What the root agent really makes of it. Raises ``NotGranted``."""
    return relay(
        unverified(envelope),
        envelope,
        agent_id=ROOT,
        decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-001", "2026.1", "permitted"),
        document=DOCUMENT,
        invocation=INVOCATION,
        now=NOW,
        task_id="task-0",
    )


def verified(envelope: dict[str, Any], keys: dict[str, tuple[PublicKey, ...]] | None = None) -> tuple[Branch, ...]:
    """The branches of a whole tree, verified from the top as an auditor does."""
    top = signer_of(unverified(envelope).predicate.agent.id)
    statement = verify_provenance(envelope, top.public_key, body=BODY)
    return verify_tree(statement, KEYS if keys is None else keys)


def unverified(envelope: dict[str, Any]) -> Statement:
    return read_statement(json.loads(payload_of(envelope)))


def places(envelope: dict[str, Any], place: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The place of every envelope of a tree: of the top, of its branches, of theirs."""
    yield place
    for number, stated in enumerate(opened(envelope)["predicate"]["upstream"]):
        yield from places(stated["envelope"], (*place, number))


def rewritten(envelope: dict[str, Any], place: tuple[int, ...], change: Change, *, resigned: bool) -> dict[str, Any]:
    """The tree with the envelope at ``place`` changed by ``change``; those above it signed anew or not."""
    if not place:
        changed = deepcopy(envelope)
        change(changed)
        return changed
    statement = opened(envelope)
    stated = statement["predicate"]["upstream"][place[0]]
    stated["envelope"] = rewritten(stated["envelope"], place[1:], change, resigned=resigned)
    if resigned:
        return sign_envelope(statement, signer_of(statement["predicate"]["agent"]["id"]))
    return envelope | {"payload": base64.b64encode(json.dumps(statement).encode()).decode()}


def opened(envelope: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(payload_of(envelope)))


def _stated(node: Node, client: str, path: str) -> Upstream:
    envelope = grown(node, client, path)
    return upstream_of(unverified(envelope), envelope, f"task-{path}")
