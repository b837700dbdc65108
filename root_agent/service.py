"""The collaborators of the asking path, as values; ``opening.py`` builds them from ``Settings``.

``World`` is what may change on a reload: principals and policies. An asking keeps the parts
it has read; its decisions carry the policy version they were made under.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from cache.memo import Memo
from contract.bearer_token import BearerToken
from contract.errors import Category, Component, DatasetAgentError
from contract.extension import GRANT_HEADER
from contract.principal import Principal
from contract.signing import PublicKey, Signer
from contract.tracing import Traces
from contract.verdict import NotGranted, Reason
from contract.zone import UTC
from control_plane.evaluator import Evaluator
from control_plane.identity import accepted_until, verify_person
from control_plane.oidc import OidcVerifier
from control_plane.oidc_token import VerifiedPerson
from control_plane.principals import Directory, with_claims
from delegation.credentials import Assertions
from delegation.offer import Offer
from evidence.ledger import Ledger
from grants.trust import Trust, TrustedAgent
from quota.limiter import Limiter
from root_agent.finder import Finder
from root_agent.identity import RequestContext
from root_agent.measures import Measures

NOBODY_NAMED: Final = "root_agent.person.missing"


class Cards(Protocol):
    """Verified agent cards, kept for a while."""

    async def offers(self, agent: TrustedAgent, url: str, now: float) -> tuple[Offer, ...]:
        """What the agent offers this root. Raises ``NotGranted`` with one of ``REMOTE_*``."""
        ...

    def forget(self, agent_id: str) -> None:
        """Fetch that agent's card again the next time."""
        ...

    def forget_all(self) -> None:
        """Fetch every card again the next time, those that are being fetched now too."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """Whom this service knows and what it decides by."""

    directory: Directory
    evaluator: Evaluator
    policy_version: str


@dataclass(slots=True)
class Service:
    """What one root agent works with. Only ``world``, ``trust``, ``agents`` and ``metrics_token`` are ever replaced.

    ``agents`` are the dataset agents to ask, each with the address to ask it at. ``model`` is
    a model's name, or an ADK model object in tests; ``None`` reads questions offline. ``memo``
    keeps what words were read as, where it is on. Agents whose card is not here after ``discovery_budget`` seconds are
    left out of a question that others can answer. With an ``identity_provider`` no development
    token is accepted, whatever else is set. Times to live are seconds. ``zone`` is that of people who name none.
    With ``opaque_refusals`` a dataset that is hidden from a person is answered about as one that is not there.
    ``limiter`` holds how often one person may ask. ``analytics`` are plugins of its runner, after the policy's.
    ``metrics_at_home`` says whether this machine may read the metrics without a token.
    """

    root_id: str
    issuer_url: str
    world: World
    trust: Trust
    agents: tuple[tuple[TrustedAgent, str], ...]
    issuer: Signer = field(repr=False)
    holder: Signer = field(repr=False)
    assertions: Assertions = field(repr=False)
    cards: Cards
    ledger: Ledger
    root_ttl: int = 300
    leaf_ttl: int = 60
    call_timeout: float = 60.0
    discovery_limit: int = 5
    opaque_refusals: bool = False
    discovery_budget: float = 2.0
    identity_provider: OidcVerifier | None = None
    accept_development_issuer: bool = True
    development_principal: str | None = None
    model: Any = None
    memo: Memo | None = None
    zone: ZoneInfo = UTC
    measures: Measures = field(default_factory=Measures, repr=False)
    finder: Finder = field(default_factory=Finder, repr=False)
    limiter: Limiter = field(default_factory=Limiter.unlimited, repr=False)
    traces: Traces = field(default_factory=Traces, repr=False)
    analytics: tuple[Any, ...] = ()
    metrics_token: BearerToken | None = None
    metrics_at_home: bool = False
    clock: Callable[[], float] = time.time

    @property
    def holder_entry(self) -> TrustedAgent:
        """This root agent as the trust file knows it: the holder its grants are minted for."""
        return pinned_holder(self.trust, self.root_id, self.holder.public_key)

    async def person(self, token: str | None) -> RequestContext:
        """The person an identity token stands for.

        Raises UNAUTHENTICATED, and UNAVAILABLE where the identity provider's keys cannot be
        read. Whether the directory knows them is ``principal_of``.
        """
        if not token:
            raise _unauthenticated(NOBODY_NAMED, "send Authorization: Bearer with an identity token of a person")
        if self.identity_provider is not None:
            return self._signed_in(await self.identity_provider.verify(token, self.clock()))
        issuer = self.trust.issuer(self.issuer_url)
        if issuer is None or not self.accept_development_issuer:
            raise _unauthenticated(
                "root_agent.person.nobody", "no identity token is accepted here: no identity provider is configured"
            )
        who, subject = verify_person(
            token, keys=issuer.identity_keys, issuer_url=self.issuer_url, audience=self.root_id, now=self.clock()
        )
        return RequestContext(who, subject, until=accepted_until(token))

    def principal_of(self, person: RequestContext, world: World | None = None) -> Principal:
        """The person in this service's own directory, or in that of ``world``: the one authority on what they may do.

        Raises ``NotGranted`` UNKNOWN_PRINCIPAL and PRINCIPAL_ATTRIBUTE_CONFLICT.
        """
        principal = (world or self.world).directory.find(person.issuer, person.subject)
        if principal is None:
            raise NotGranted(Reason.UNKNOWN_PRINCIPAL, "the verified person is not in the directory")
        if principal.issuer != self.issuer_url:
            raise NotGranted(Reason.UNKNOWN_PRINCIPAL, "the grant issuer does not vouch for the verified person")
        return with_claims(principal, person.attributes)

    def _signed_in(self, person: VerifiedPerson) -> RequestContext:
        """Under the directory's own name of the person, which is what grants and evidence say."""
        known = self.world.directory.signed_in(person.issuer, person.subject)
        issuer, subject = (person.issuer, person.subject) if known is None else known.key
        return RequestContext(issuer, subject, attributes=person.attributes, until=person.until)

    def development_person(self) -> RequestContext | None:
        """Whom `adk run` and `adk web` ask as, where an operator said so; never for another door."""
        if self.identity_provider is not None or not self.accept_development_issuer:
            return None
        if self.development_principal is None:
            return None
        principal = self.world.directory.named(self.development_principal)
        return None if principal is None else RequestContext(principal.issuer, principal.subject)

    def headers(
        self, audience: str, grant: str, traceparent: str, *, person: Principal | None = None
    ) -> Mapping[str, str]:
        """What goes on the wire beside one call: who sends it, under which grant, in which trace.

        With ``person`` also whose task it goes on with.
        """
        return {**self.looking(audience, person), GRANT_HEADER: grant, "traceparent": traceparent}

    def looking(self, audience: str, person: Principal | None) -> Mapping[str, str]:
        """Who calls, and on behalf of which person where one of their tasks is concerned. No authority is in it."""
        now = self.clock()
        if person is None:
            return {"Authorization": self.assertions.bearer(audience, now)}
        named = (person.issuer, person.tenant, person.subject)
        return {"Authorization": self.assertions.naming(audience, named, now)}


def _unauthenticated(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.ROOT_AGENT, Category.UNAUTHENTICATED, code, message)


def pinned_holder(trust: Trust, root_id: str, key: PublicKey) -> TrustedAgent:
    """The entry of the root agent that signs with ``key``, with that key as its present one."""
    entry = trust.agent(root_id)
    if entry is None or key not in entry.accepted_keys:
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.CONFIGURATION,
            "root_agent.trust.holder",
            f"the trust file {_instead(entry, root_id, key)}",
        )
    return entry if entry.key == key else replace(entry, key=key)


def _instead(entry: TrustedAgent | None, root_id: str, key: PublicKey) -> str:
    if entry is None:
        return f"does not pin this root agent's key for {root_id}: run dataset-agent keys init"
    return f"pins another key for {root_id} than this root agent's ({key.thumbprint}): bring the newest trust.toml here"
