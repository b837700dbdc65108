"""Which agent is calling: a short assertion in ``Authorization: Bearer`` (RFC 7523, section 3, profile)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final

from contract.errors import Category, Component, DatasetAgentError
from contract.signing import PublicKey, Signer
from grants import jose
from grants.claims import SKEW, ClientClaims, InvalidClaims, read, write
from grants.memory import Remembered
from grants.trust import Trust, TrustedAgent

CLIENT_TYP: Final = "client-authentication+jwt"
MAX_CLIENT_LIFE: Final = 60


@dataclass(frozen=True, slots=True)
class _Signed:
    """Claims that the key ``kid`` was seen to have signed."""

    claims: ClientClaims
    kid: str


_assertions: Final = Remembered[_Signed](1_024)


@dataclass(frozen=True, slots=True)
class Client:
    """An authenticated agent, and the person it names as (issuer, tenant, subject), if any."""

    agent: str
    person: tuple[str, str, str] | None


def client_assertion(
    signer: Signer,
    *,
    agent_id: str,
    audience: str,
    now: float,
    ttl: int = MAX_CLIENT_LIFE,
    person: tuple[str, str, str] | None = None,
) -> str:
    """An assertion that ``agent_id`` calls ``audience``; reusable for ``ttl`` seconds, 60 at most.

    ``person`` (issuer, tenant, subject) is whose tasks the agent wants to look at.
    """
    if not 0 < ttl <= MAX_CLIENT_LIFE:
        raise DatasetAgentError(
            Component.GRANTS,
            Category.INVALID_INPUT,
            "grants.client.ttl",
            f"a client assertion lives 1 to {MAX_CLIENT_LIFE} seconds",
        )
    issued = int(now)
    claims: dict[str, Any] = {
        "iss": agent_id,
        "sub": agent_id,
        "aud": audience,
        "iat": issued,
        "exp": issued + ttl,
        "jti": secrets.token_hex(16),
    }
    if person is not None:
        claims["principal"] = dict(zip(("iss", "tenant", "sub"), person, strict=True))
    return jose.sign(write(claims), signer, typ=CLIENT_TYP, kid=signer.public_key.thumbprint)


def authenticate_client(token: str | None, *, trust: Trust, audience: str, now: float) -> Client:
    """The agent that signed ``token`` for this ``audience``.

    Raises an UNAUTHENTICATED fault. An assertion may be used again while it lives: it says
    who calls, and authorizes nothing.
    """
    if not token:
        raise _fault("missing", "send Authorization: Bearer with a client assertion")
    name = _assertions.name(token)
    signed = _assertions.find(name, now)
    if signed is None:
        signed = _read(token, trust)
        _assertions.keep(name, signed, until=signed.claims.exp + SKEW)
    agent, _ = _owner(signed.kid, trust)
    _check(signed.claims, agent.id, audience, now)
    named = signed.claims.principal
    return Client(agent.id, None if named is None else (named.iss, named.tenant, named.sub))


def _read(token: str, trust: Trust) -> _Signed:
    try:
        compact = jose.split(token)
    except jose.MalformedToken as error:
        raise _fault("malformed", f"the client assertion is not acceptable: {error}") from error
    header = compact.header
    if header.keys() != {"alg", "typ", "kid"} or header["alg"] != jose.ALGORITHM or header["typ"] != CLIENT_TYP:
        raise _fault("header", f"a client assertion's header is alg {jose.ALGORITHM}, typ {CLIENT_TYP} and kid")
    kid = header["kid"]
    if not isinstance(kid, str):
        raise _fault("header", "the client assertion's kid is not text")
    _, key = _owner(kid, trust)
    if not jose.signature_holds(compact, key):
        raise _fault("signature", "the client assertion is not signed by its key")
    try:
        return _Signed(read(ClientClaims, compact.payload), kid)
    except InvalidClaims as error:
        raise _fault("claims", f"the client assertion is not acceptable: {error}") from error


def _owner(kid: str, trust: Trust) -> tuple[TrustedAgent, PublicKey]:
    owner = trust.agent_key(kid)
    if owner is None:
        raise _fault("key", "the client's key is not in the trust file")
    if not owner[0].asks:
        raise _fault("asks", "the trust file says that this agent does not ask here")
    return owner


def _check(claims: ClientClaims, agent_id: str, audience: str, now: float) -> None:
    if not claims.iss == claims.sub == agent_id:
        raise _fault("subject", "the client assertion does not speak for the owner of its key")
    if claims.aud != audience:
        raise _fault("audience", "the client assertion is for another agent")
    if not 0 < claims.exp - claims.iat <= MAX_CLIENT_LIFE:
        raise _fault("lifetime", f"a client assertion lives 1 to {MAX_CLIENT_LIFE} seconds")
    if claims.iat > now + SKEW:
        raise _fault("not_yet_valid", "the client assertion is not valid yet; compare the two clocks")
    if now >= claims.exp + SKEW:
        raise _fault("expired", "the client assertion has expired; sign a fresh one")


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, Category.UNAUTHENTICATED, f"grants.client.{code}", message)
