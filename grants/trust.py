"""``trust.toml``: the public file that pins issuers and agents.

Everything a receiver believes about who may sign is in it; nothing is learned from a token.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PlainValidator, ValidationError

from contract.address import UnsafeUrl, plain_url
from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.ids import Slug
from contract.schema import Strict
from contract.signing import PublicKey, is_thumbprint
from grants.details import Identifier, Note

MAX_TRUST_BYTES: Final = 2**20
MAX_KEYS: Final = 16
MAX_REVOKED: Final = 1_024


@dataclass(frozen=True)
class TrustedIssuer:
    """Who may admit: its grant keys, the keys of its identity tokens, and whom it may speak for.

    ``subject_prefix`` is the namespace of the subjects it may name; empty means any.
    ``jwks_url`` is where it publishes more grant keys (``grants.jwks``), ``None`` where the
    pinned ones are all.
    """

    url: str
    keys: tuple[PublicKey, ...]
    identity_keys: tuple[PublicKey, ...]
    tenants: frozenset[str]
    subject_prefix: str = ""
    jwks_url: str | None = None


@dataclass(frozen=True)
class TrustedAgent:
    """An agent by its id (its ``aud`` and ``act.sub``), its address and its keys.

    ``key`` is the one it signs with, and that grants for it name. ``further_keys`` are
    believed like it while the key is changed: the next one, published ahead, and the one
    before, until it is retired. ``retired_keys``, the oldest first, signed its ledger and
    its answers before. They are for verifying what is kept, offline: nothing that arrives
    is believed because of one.

    ``datasets`` are those that it is believed to serve, ``None`` where the file does not
    say. An agent that does not ``ask`` is nobody's client here: it is only asked.
    """

    id: str
    url: str
    key: PublicKey
    retired_keys: tuple[PublicKey, ...] = ()
    further_keys: tuple[PublicKey, ...] = ()
    datasets: frozenset[str] | None = None
    asks: bool = True

    @cached_property
    def accepted_keys(self) -> tuple[PublicKey, ...]:
        """Every key by which what arrives from this agent, or names it, is believed; the present one first."""
        return (self.key, *self.further_keys)

    @property
    def every_key(self) -> tuple[PublicKey, ...]:
        """Every key that its ledger and its saved answers may be signed by, the present one first."""
        return (*self.accepted_keys, *self.retired_keys)

    def accepted_key(self, kid: str) -> PublicKey | None:
        """Its accepted key with this thumbprint."""
        return next((key for key in self.accepted_keys if key.thumbprint == kid), None)


@dataclass(frozen=True)
class Trust:
    """What ``trust.toml`` says, and the keys that its issuers publish.

    ``policy_versions`` is ``None`` where it accepts every version. ``revoked_keys`` are the
    thumbprints of keys by which nothing is ever believed again, whoever pins or publishes
    them and for whatever use. ``unreachable`` are issuers whose published keys could not be
    read: an unknown key may be theirs.
    """

    issuers: Mapping[str, TrustedIssuer]
    agents: Mapping[str, TrustedAgent]
    policy_versions: frozenset[str] | None = None
    unreachable: frozenset[str] = frozenset()
    revoked_keys: frozenset[str] = frozenset()

    def issuer(self, url: str) -> TrustedIssuer | None:
        return self.issuers.get(url)

    def agent(self, agent_id: str) -> TrustedAgent | None:
        return self.agents.get(agent_id)

    def grant_key(self, kid: str, issuer: str | None = None) -> tuple[TrustedIssuer, PublicKey] | None:
        """The issuer that owns a grant key, by thumbprint.

        A pinned key has one owner. One that several issuers publish is each one's, and
        ``issuer``, read from a token that it was seen to sign, says for whom it speaks there.
        """
        owners = self._grant_keys.get(kid, ())
        return next((owner for owner in owners if owner[0].url == issuer), owners[0] if owners else None)

    def agent_key(self, kid: str) -> tuple[TrustedAgent, PublicKey] | None:
        """The agent that a key is accepted for, and the key, by thumbprint."""
        return self._agent_keys.get(kid)

    @cached_property
    def _agent_keys(self) -> Mapping[str, tuple[TrustedAgent, PublicKey]]:
        return {key.thumbprint: (agent, key) for agent in self.agents.values() for key in agent.accepted_keys}

    @cached_property
    def _grant_keys(self) -> Mapping[str, tuple[tuple[TrustedIssuer, PublicKey], ...]]:
        owners: dict[str, tuple[tuple[TrustedIssuer, PublicKey], ...]] = {}
        for issuer in self.issuers.values():
            for key in issuer.keys:
                owners[key.thumbprint] = (*owners.get(key.thumbprint, ()), (issuer, key))
        return owners


def load_trust(path: Path) -> Trust:
    """Read ``trust.toml`` strictly, without the keys that it revokes.

    Raises ``grants.trust.missing`` or ``grants.trust.invalid``; the message names the file
    and the place.
    """
    return _without_revoked(read_trust(path))


def read_trust(path: Path) -> Trust:
    """The file as it stands, revoked keys among the others: to change it. Raises as ``load_trust``."""
    try:
        data = read_bounded(path, MAX_TRUST_BYTES)
    except FileNotFoundError as error:
        raise trust_fault("missing", f"there is no trust file at {path}; run: dataset-agent keys init") from error
    except OSError as error:
        raise trust_fault("invalid", f"{path} cannot be read: {error.strerror}") from error
    return parse_trust(data, path)


def parse_trust(data: bytes, path: Path) -> Trust:
    """What the file at ``path`` says where its bytes are ``data``. Raises ``grants.trust.invalid``."""
    if len(data) > MAX_TRUST_BYTES:
        raise trust_fault("invalid", f"{path} is larger than {MAX_TRUST_BYTES} bytes")
    try:
        return _trust_of(_TrustFile.model_validate(tomllib.loads(data.decode("utf-8"))))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise trust_fault("invalid", f"{path}: {place}: {first['msg']}") from error
    except ValueError as error:
        raise trust_fault("invalid", f"{path}: {error}") from error
    except RecursionError as error:
        raise trust_fault("invalid", f"{path}: it is nested too deeply") from error


def _without_revoked(trust: Trust) -> Trust:
    """Without its revoked keys; an agent that has no other is not known at all, by any key it ever had."""
    revoked = set(trust.revoked_keys)

    def left(keys: tuple[PublicKey, ...]) -> tuple[PublicKey, ...]:
        return tuple(key for key in keys if key.thumbprint not in trust.revoked_keys)

    issuers = {
        url: replace(issuer, keys=left(issuer.keys), identity_keys=left(issuer.identity_keys))
        for url, issuer in trust.issuers.items()
    }
    agents: dict[str, TrustedAgent] = {}
    for name, agent in trust.agents.items():
        if accepted := left(agent.accepted_keys):
            agents[name] = replace(agent, key=accepted[0], further_keys=accepted[1:])
        else:
            revoked |= {key.thumbprint for key in agent.every_key}
    return replace(
        trust,
        issuers=MappingProxyType(issuers),
        agents=MappingProxyType(agents),
        revoked_keys=frozenset(revoked),
    )


def _key(value: Any) -> PublicKey:
    """A key as a JWK table, or as the base64url ``x`` alone."""
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": value} if isinstance(value, str) else value
    return PublicKey.from_jwk(jwk)


def _url(value: str) -> str:
    try:
        plain_url(value)
    except UnsafeUrl as error:
        raise ValueError("is not a plain http(s) address") from error
    return value


def _kid(value: str) -> str:
    if not is_thumbprint(value):
        raise ValueError("is no thumbprint of a key, as keys list shows them")
    return value


_Url = Annotated[str, Field(max_length=512), AfterValidator(_url)]
_Key = Annotated[PublicKey, PlainValidator(_key)]
_Keys = Annotated[tuple[_Key, ...], Field(max_length=MAX_KEYS, strict=False)]


class _IssuerEntry(Strict):
    url: _Url
    keys: _Keys = ()
    jwks_url: _Url | None = None
    identity_keys: _Keys = ()
    tenants: Annotated[tuple[Identifier, ...], Field(min_length=1, strict=False)]
    subject_prefix: Identifier | Literal[""] = ""


class _AgentEntry(Strict):
    id: Identifier
    url: _Url
    key: _Key
    keys: _Keys = ()
    retired_keys: _Keys = ()
    datasets: Annotated[tuple[Slug, ...], Field(strict=False)] | None = None
    asks: bool = True


class _TrustFile(Strict):
    policy_versions: Annotated[tuple[Note, ...], Field(strict=False)] | None = None
    revoked_keys: Annotated[
        tuple[Annotated[str, AfterValidator(_kid)], ...], Field(max_length=MAX_REVOKED, strict=False)
    ] = ()
    issuer: Annotated[tuple[_IssuerEntry, ...], Field(strict=False)] = ()
    agent: Annotated[tuple[_AgentEntry, ...], Field(strict=False)] = ()


def _trust_of(file: _TrustFile) -> Trust:
    issuers = {entry.url: entry for entry in file.issuer}
    agents = {entry.id: entry for entry in file.agent}
    _refuse_twice("issuer", [entry.url for entry in file.issuer])
    _refuse_twice("agent", [entry.id for entry in file.agent])
    owned = [key.thumbprint for entry in file.issuer for key in (*entry.keys, *entry.identity_keys)]
    owned += [key.thumbprint for entry in file.agent for key in (entry.key, *entry.keys, *entry.retired_keys)]
    _refuse_twice("key", owned)
    _refuse_twice("dataset", [dataset for entry in file.agent for dataset in entry.datasets or ()])
    return Trust(
        issuers=MappingProxyType(
            {
                url: TrustedIssuer(
                    url, entry.keys, entry.identity_keys, frozenset(entry.tenants), entry.subject_prefix, entry.jwks_url
                )
                for url, entry in issuers.items()
            }
        ),
        agents=MappingProxyType(
            {
                name: TrustedAgent(
                    name,
                    entry.url,
                    entry.key,
                    entry.retired_keys,
                    entry.keys,
                    None if entry.datasets is None else frozenset(entry.datasets),
                    entry.asks,
                )
                for name, entry in agents.items()
            }
        ),
        policy_versions=None if file.policy_versions is None else frozenset(file.policy_versions),
        revoked_keys=frozenset(file.revoked_keys),
    )


def _refuse_twice(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name} stands here twice")
        seen.add(name)


def trust_fault(code: str, message: str) -> DatasetAgentError:
    """A fault of the trust file, ``grants.trust.*``."""
    return DatasetAgentError(Component.GRANTS, Category.CONFIGURATION, f"grants.trust.{code}", message)
