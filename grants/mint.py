"""What the issuer signs: a root token for the agent that asks, after its own GRANTED decision."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contract.errors import Category, Component, DatasetAgentError
from contract.principal import Principal
from contract.scope import Scope, ScopeError, meet_columns, meet_rows
from contract.signing import Signer
from contract.verdict import Decision, NotGranted, Reason, Verdict
from grants import jose
from grants.claims import (
    DELEGATE,
    GRANT_TYP,
    MAX_DEPTH,
    MAX_ROOT_LIFE,
    InvalidClaims,
    RootClaims,
    jwk_of,
    read,
    write,
)
from grants.details import details_of
from grants.trust import TrustedAgent


def mint_root(
    signer: Signer,
    *,
    issuer_url: str,
    decision: Decision,
    principal: Principal,
    holder: TrustedAgent,
    scope: Scope,
    intent: str,
    rctx: Mapping[str, Any],
    now: float,
    ttl: int = MAX_ROOT_LIFE,
    max_depth: int = MAX_DEPTH,
    further: Sequence[tuple[Scope, Decision]] = (),
) -> str:
    """A root token that lets ``holder`` delegate ``scope`` for ``principal``; ``ttl`` in seconds.

    ``further`` are scopes of other datasets that the agent asked needs itself, each with
    the decision that granted it.

    The decision's row and column obligations are met with the scope, so a token is never
    wider than the decision it rests on. ``intent`` is at most 256 characters and holds no
    argument; ``rctx`` has ``trace_id`` and may have ``session_id``, ``invocation_id`` and
    ``request_id``.

    Raises ``NotGranted`` for any decision that is not GRANTED, for a scope above the
    principal's clearance and for constraints that cannot hold together: then nothing is
    signed. Raises ``grants.mint.claims`` for claims that no receiver would accept.
    """
    scopes = [_granted(*pair, principal) for pair in ((scope, decision), *further)]
    tctx = {
        "tenant": principal.tenant,
        "principal_class": principal.principal_class,
        "intent": intent,
        "policy_id": decision.policy_id,
        "policy_version": decision.policy_version,
        "decision_id": decision.decision_id,
    }
    claims = _claims(issuer_url, principal, holder, rctx, now, ttl)
    claims |= {
        "del_max_depth": max_depth,
        "authorization_details": details_of(scopes),
        "tctx": {name: value for name, value in tctx.items() if value},
    }
    return _sign(claims, signer)


def mint_discovery(
    signer: Signer,
    *,
    issuer_url: str,
    principal: Principal,
    holder: TrustedAgent,
    rctx: Mapping[str, Any],
    now: float,
    ttl: int = MAX_ROOT_LIFE,
) -> str:
    """A root token that says for whom ``holder`` asks and authorizes no call."""
    claims = _claims(issuer_url, principal, holder, rctx, now, ttl)
    claims |= {
        "del_max_depth": MAX_DEPTH,
        "authorization_details": [],
        "tctx": {"tenant": principal.tenant, "principal_class": principal.principal_class},
    }
    return _sign(claims, signer)


def _claims(
    issuer_url: str, principal: Principal, holder: TrustedAgent, rctx: Mapping[str, Any], now: float, ttl: int
) -> dict[str, Any]:
    if principal.issuer != issuer_url:
        raise _fault("grants.mint.issuer", "an issuer mints only for the principals it vouches for")
    if not 0 < ttl <= MAX_ROOT_LIFE:
        raise _fault("grants.mint.ttl", f"a root token lives 1 to {MAX_ROOT_LIFE} seconds")
    issued = int(now)
    return {
        "iss": issuer_url,
        "sub": principal.subject,
        "aud": holder.id,
        "act": {"sub": issuer_url},
        "iat": issued,
        "nbf": issued,
        "exp": issued + ttl,
        "jti": secrets.token_urlsafe(16),
        "txn": f"txn-{secrets.token_urlsafe(16)}",
        "cnf": {"jwk": jwk_of(holder.key)},
        "del_depth": 0,
        "op": {"method": DELEGATE},
        "rctx": {name: value for name, value in rctx.items() if value is not None},
    }


def _granted(scope: Scope, decision: Decision, principal: Principal) -> Scope:
    """The scope under its decision's obligations."""
    if decision.verdict is not Verdict.GRANTED:
        raise NotGranted(
            decision.reason,
            decision.rationale,
            policy_id=decision.policy_id,
            policy_version=decision.policy_version,
        )
    if not scope.max_sensitivity.within(principal.clearance):
        raise NotGranted(Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, "the scope is above the principal's clearance")
    try:
        rows = meet_rows(scope.constraints, decision.obligations.rows)
    except ScopeError as error:
        raise NotGranted(Reason.GRANT_WIDENED, f"scope and policy cannot hold together: {error}") from error
    return replace(scope, constraints=rows, columns=meet_columns(scope.columns, decision.obligations.columns))


def _sign(claims: Mapping[str, Any], signer: Signer) -> str:
    payload = write(claims)
    try:
        read(RootClaims, payload).scopes  # noqa: B018 - what is minted must read
    except (InvalidClaims, ScopeError) as error:
        raise _fault("grants.mint.claims", f"nothing is minted: {error}") from error
    return jose.sign(payload, signer, typ=GRANT_TYP, kid=signer.public_key.thumbprint)


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, Category.INVALID_INPUT, code, message)
