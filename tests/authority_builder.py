"""Authority values for tests of what finding, running and sealing do with one.

Only ``grants.verify`` makes a ``VerifiedGrant`` in the product; this is the one place of the
tests that makes one without a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from contract import grant as grant_module
from contract.authority import Authority
from contract.call import Operation
from contract.grant import VerifiedGrant
from contract.principal import AttributeValue, Principal
from contract.scope import Mask, Obligations, Scope, Sensitivity, parse_rows
from contract.signing import PublicKey
from contract.verdict import Decision, Reason

ISSUER = "https://issuer.dataset-agent.example"
ROOT = "urn:dataset-agent:root"
REMOTE = "urn:dataset-agent:remote"
NOW = 1_800_000_000


def make_grant(
    scope: Scope | None,
    *,
    subject: str = "u-eng-01",
    tenant: str = "acme",
    issuer: str = ISSUER,
    client: str = ROOT,
    now: int = NOW,
    operation: Operation | None = None,
    txn: str = "txn-test",
    root_jti: str = "jti-root",
    leaf_jti: str = "jti-leaf",
    leaf_digest: str = "d" * 64,
    between: tuple[str, ...] = (),
    tctx: Mapping[str, Any] | None = None,
    rctx: Mapping[str, Any] | None = None,
) -> VerifiedGrant:
    """A grant as ``grants.verify`` would return it, ``now`` being the instant of all tokens.

    ``between`` are the ids of the tokens between the root's and the leaf.
    """
    return VerifiedGrant(
        issuer=issuer,
        subject=subject,
        tenant=tenant,
        client=client,
        txn=txn,
        jtis=(root_jti, *between, leaf_jti),
        leaf_digest=leaf_digest,
        root_issued_at=now,
        root_expires_at=now + 300,
        leaf_issued_at=now,
        leaf_expires_at=now + 60,
        issuer_kid="kid-issuer",
        holders=(client,),
        scopes=() if scope is None else (scope,),
        operation=operation or Operation(method="SendMessage", call_hash="c" * 64),
        holder_key=PublicKey(b"\x58" + b"\x66" * 31),  # the base point of the curve
        tctx=tctx or {},
        rctx=rctx or {},
        proof=grant_module._VERIFIED,
    )


def make_authority(
    *,
    dataset: str = "purification-batches",
    dataset_version: str = "1.0.0",
    revision: str = "r1",
    schema_version: str = "1",
    capability: str = "batch_yield",
    sensitivity: Sensitivity = Sensitivity.INTERNAL,
    max_sensitivity: Sensitivity = Sensitivity.RESTRICTED,
    rows: Mapping[str, Mapping[str, Any]] | None = None,
    grant_rows: Mapping[str, Mapping[str, Any]] | None = None,
    columns: Iterable[str] | None = None,
    grant_columns: Iterable[str] | None = None,
    masks: Mapping[str, str] | None = None,
    subject: str = "u-eng-01",
    name: str = "process_engineer",
    principal_class: str = "process_engineer",
    clearance: Sensitivity = Sensitivity.RESTRICTED,
    attributes: Mapping[str, AttributeValue] | None = None,
    tenant: str = "acme",
    issuer: str = ISSUER,
    client: str = ROOT,
    policy_id: str = "BPD-DATA-001",
    policy_version: str = "2026.1",
    decision_id: str | None = None,
    now: int = NOW,
    operation: Operation | None = None,
    **grant_fields: Any,
) -> Authority:
    """The narrowest of a grant and a decision.

    ``rows``, ``columns`` and ``masks`` are the policy's obligations, ``grant_rows`` and
    ``grant_columns`` the grant's; constraints are JSON, as ``{"orders.region": {"one_of": ["EU"]}}``.
    """
    scope = Scope(
        dataset=dataset,
        dataset_version=dataset_version,
        revision=revision,
        actions=frozenset({capability}),
        locations=frozenset({REMOTE}),
        max_sensitivity=max_sensitivity,
        columns=None if grant_columns is None else frozenset(grant_columns),
        constraints=parse_rows(dict(grant_rows or {})),
    )
    obligations = Obligations(
        rows=parse_rows(dict(rows or {})),
        columns=None if columns is None else frozenset(columns),
        masks=MappingProxyType({column: Mask(mask) for column, mask in (masks or {}).items()}),
    )
    decision = Decision(
        reason=Reason.PRINCIPAL_AUTHORIZED,
        policy_id=policy_id,
        policy_version=policy_version,
        rationale="the policy permits it",
        obligations=obligations,
        **({} if decision_id is None else {"decision_id": decision_id}),
    )
    principal = Principal(
        issuer=issuer,
        subject=subject,
        tenant=tenant,
        name=name,
        principal_class=principal_class,
        clearance=clearance,
        entitlements={dataset: frozenset({capability})},
        attributes=attributes or {},
    )
    verified = make_grant(
        scope,
        subject=subject,
        tenant=tenant,
        issuer=issuer,
        client=client,
        now=now,
        operation=operation,
        **grant_fields,
    )
    return Authority.of(
        verified,
        decision,
        principal,
        scope=scope,
        capability=capability,
        schema_version=schema_version,
        sensitivity=sensitivity,
    )
