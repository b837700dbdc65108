"""A world for tests of grants: an issuer, a root agent, three dataset agents, and a forge.

The forge signs any claims and any header, so a test can publish a broken token without
the code under test.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contract.call import Operation
from contract.canonical import b64url, unb64url
from contract.grant import VerifiedGrant
from contract.principal import Principal
from contract.scope import Scope, Sensitivity, parse_rows
from contract.signing import PublicKey
from contract.verdict import Decision, Reason
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.mint import mint_root
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.verify import verify

ISSUER = "https://issuer.dataset-agent.example"
OTHER_ISSUER = "https://other.dataset-agent.example"
ROOT = "urn:dataset-agent:root"
REMOTE = "urn:dataset-agent:remote"
SECOND = "urn:dataset-agent:second"
THIRD = "urn:dataset-agent:third"
NOW = 1_800_000_000
CALL = Operation("SendMessage", call_hash="c" * 64)


def signer(seed: int) -> FileSigner:
    return FileSigner(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


SIGNERS = {
    ISSUER: signer(1),
    OTHER_ISSUER: signer(2),
    ROOT: signer(3),
    REMOTE: signer(4),
    SECOND: signer(5),
    THIRD: signer(6),
}
STRANGER = signer(99)


def agent(agent_id: str) -> TrustedAgent:
    return TrustedAgent(agent_id, "http://127.0.0.1:8801", SIGNERS[agent_id].public_key)


def make_trust(**changes: Any) -> Trust:
    issuers = {
        ISSUER: TrustedIssuer(ISSUER, (SIGNERS[ISSUER].public_key,), (), frozenset({"acme"}), "u-"),
        OTHER_ISSUER: TrustedIssuer(OTHER_ISSUER, (SIGNERS[OTHER_ISSUER].public_key,), (), frozenset({"other"}), "x-"),
    }
    agents = {name: agent(name) for name in (ROOT, REMOTE, SECOND, THIRD)}
    members: dict[str, Any] = {"issuers": issuers, "agents": agents}
    return Trust(**(members | changes))


TRUST = make_trust()


def make_scope(**changes: Any) -> Scope:
    members: dict[str, Any] = {
        "dataset": "purification-batches",
        "dataset_version": "1.0.0",
        "revision": "rev-1",
        "actions": frozenset({"compare_recovery", "batch_yield"}),
        "locations": frozenset({REMOTE, SECOND, THIRD}),
        "max_sensitivity": Sensitivity.CONFIDENTIAL,
        "columns": frozenset({"batches.batch_id", "batches.recovery"}),
        "constraints": parse_rows({"batches.site": {"one_of": ["basel", "visp"]}}),
    }
    return Scope(**(members | changes))


def make_principal(**changes: Any) -> Principal:
    members: dict[str, Any] = {
        "issuer": ISSUER,
        "subject": "u-eng-01",
        "tenant": "acme",
        "name": "process_engineer",
        "principal_class": "process_engineer",
        "clearance": Sensitivity.CONFIDENTIAL,
    }
    return Principal(**(members | changes))


def make_decision(reason: Reason = Reason.PRINCIPAL_AUTHORIZED, **changes: Any) -> Decision:
    members: dict[str, Any] = {
        "reason": reason,
        "policy_id": "BPD-DATA-014",
        "policy_version": "2026.1",
        "rationale": "the principal may",
    }
    return Decision(**(members | changes))


def make_root(scope: Scope | None = None, *, now: float = NOW, **changes: Any) -> str:
    members: dict[str, Any] = {
        "issuer_url": ISSUER,
        "decision": make_decision(),
        "principal": make_principal(),
        "holder": agent(ROOT),
        "scope": scope or make_scope(),
        "intent": "compare_recovery",
        "rctx": {"trace_id": "t" * 32, "session_id": "s-1", "invocation_id": "i-1"},
    }
    return mint_root(SIGNERS[ISSUER], now=now, **(members | changes))


def make_chain(
    root: str | None = None, *hops: str, now: float = NOW, operation: Operation = CALL, **changes: Any
) -> tuple[str, ...]:
    """A chain through ``hops`` (the remote where none are named); every hop is a dataset agent."""
    chain: tuple[str, ...] = (root or make_root(now=now),)
    holder = ROOT
    for hop in hops or (REMOTE,):
        chain = derive(chain, SIGNERS[holder], audience=agent(hop), operation=operation, now=now, **changes)
        holder = hop
    return chain


def accept(chain: Sequence[str] | str | None, **changes: Any) -> VerifiedGrant:
    """Verify as the remote would, called by the root agent for ``CALL``."""
    header = chain if chain is None or isinstance(chain, str) else header_value(chain)
    members: dict[str, Any] = {
        "trust": TRUST,
        "audience": REMOTE,
        "client": ROOT,
        "operation": CALL,
        "now": float(NOW),
    }
    return verify(header, **(members | changes))


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a token, unverified."""
    claims = json.loads(unb64url(token.split(".")[1]))
    assert isinstance(claims, dict)
    return claims


def forge(claims: Mapping[str, Any] | bytes, by: FileSigner, header: Mapping[str, Any] | bytes) -> str:
    """A JWS over exactly these bytes; nothing is checked."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    signing_input = f"{b64url(head)}.{b64url(body)}"
    return f"{signing_input}.{b64url(by.sign(signing_input.encode()))}"


def root_header(by: FileSigner | None = None) -> dict[str, Any]:
    return {"alg": "Ed25519", "typ": "execution-grant+jwt", "kid": (by or SIGNERS[ISSUER]).public_key.thumbprint}


CHILD_HEADER: dict[str, Any] = {"alg": "Ed25519", "typ": "execution-grant+jwt"}

Edit = Callable[[dict[str, Any]], Any]


def par_hash(token: str) -> str:
    import hashlib

    return b64url(hashlib.sha256(token.rsplit(".", 1)[0].encode()).digest())


@dataclass
class Forge:
    """Two tokens, root and leaf, that verify unless a test edits what is signed."""

    root: dict[str, Any] = field(default_factory=lambda: claims_of(make_root()))
    leaf: dict[str, Any] = field(default_factory=dict)
    root_head: dict[str, Any] = field(default_factory=root_header)
    leaf_head: dict[str, Any] = field(default_factory=lambda: dict(CHILD_HEADER))
    root_signer: FileSigner = SIGNERS[ISSUER]
    leaf_signer: FileSigner = SIGNERS[ROOT]

    def __post_init__(self) -> None:
        if not self.leaf:
            self.leaf = claims_of(make_chain(forge(self.root, self.root_signer, self.root_head))[-1])

    def chain(self, *, edit_root: Edit | None = None, edit_leaf: Edit | None = None) -> tuple[str, str]:
        """The two tokens, signed after the edits; ``par_hash`` follows unless the leaf's edit sets it."""
        root, leaf = copy.deepcopy(self.root), copy.deepcopy(self.leaf)
        if edit_root is not None:
            edit_root(root)
        first = forge(root, self.root_signer, self.root_head)
        leaf["par_hash"] = par_hash(first)
        if edit_leaf is not None:
            edit_leaf(leaf)
        return first, forge(leaf, self.leaf_signer, self.leaf_head)


def public(seed: int) -> PublicKey:
    return signer(seed).public_key
