"""Builds the root agent's ``Service`` from ``Settings``, in one place."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from cache.memo_keys import load_memo_secret
from cache.memo_opening import open_memo
from contract.errors import Category, Component, DatasetAgentError
from contract.key_ring import take_over
from contract.settings import Settings
from contract.zone import read_zone
from control_plane.evaluator import Evaluator, HttpEvaluator, InProcessEvaluator
from control_plane.identity import refuse_in_production
from control_plane.oidc import OidcVerifier
from control_plane.policy import PolicySet, load_policies
from control_plane.policy_seen import told_apart
from control_plane.principals import load_directory
from delegation.cards import CardBook
from delegation.credentials import Assertions
from delegation.http import open_http
from evidence.opening import open_own
from evidence.row import Side
from grants.key_store import KeyName
from grants.signers import open_signer, reopen
from grants.state_server import StateServer
from grants.trust import Trust, TrustedAgent, load_trust
from metrics.common import release
from metrics.door import metrics_token
from quota.opening import open_limiter
from root_agent.analytics import analytics_plugins
from root_agent.service import Service, World, pinned_holder
from telemetry.export import open_traces

log = logging.getLogger(__name__)


def load_world(settings: Settings) -> World:
    """Principals and policies as they are on disk now. Raises ``DatasetAgentError``."""
    policies = load_policies(settings.datasets / "policies")
    if told := told_apart(policies, settings.datasets, settings.home, remember=True):
        log.warning(told)
    directory = load_directory(settings.datasets / "principals.yaml")
    return World(directory, _evaluator(settings, policies), policies.version)


def open_service(settings: Settings, *, clock: Callable[[], float] = time.time) -> Service:
    """Everything a root agent needs. Raises ``DatasetAgentError`` with what to do about it."""
    refuse_in_production(settings)
    trust = load_trust(settings.trust_path)
    own = trust.agent(settings.root_id)
    holder = open_signer(settings, KeyName.ROOT)
    assertions = Assertions(holder, settings.root_id)
    service = Service(
        root_id=settings.root_id,
        issuer_url=settings.issuer_url,
        world=load_world(settings),
        trust=trust,
        agents=dataset_agents(settings, trust),
        issuer=open_signer(settings, KeyName.ISSUER),
        holder=holder,
        assertions=assertions,
        cards=CardBook(
            open_http(settings), assertions, private_network=settings.private_network, ttl=settings.card_ttl
        ),
        ledger=open_own(
            settings,
            settings.root_id,
            settings.home / "root",
            holder,
            now=clock(),
            retired=own.every_key if own else (),
        ),
        root_ttl=settings.root_ttl,
        leaf_ttl=settings.leaf_ttl,
        call_timeout=settings.call_timeout,
        discovery_limit=settings.discovery_limit,
        opaque_refusals=settings.opaque_refusals,
        discovery_budget=settings.discovery_budget,
        identity_provider=None if settings.identity_provider is None else OidcVerifier(settings.identity_provider),
        accept_development_issuer=settings.development_issuer,
        development_principal=settings.as_principal,
        model=settings.model,
        memo=open_memo(settings),
        zone=read_zone(settings.zone),
        metrics_token=metrics_token(settings, Component.ROOT_AGENT),
        metrics_at_home=not settings.production,
        analytics=analytics_plugins(settings),
        limiter=open_limiter(settings, StateServer.reach, lambda: load_memo_secret(settings)),
        traces=open_traces(Component.ROOT_AGENT, "dataset-agent-root", version=release()),
        clock=clock,
    )
    service.ledger.attend(settings.home / "root" / "arrivals", side=Side.ROOT, agent_id=settings.root_id, now=clock())
    service.limiter.exceeded = lambda over: service.measures.limited(over.what)
    service.holder_entry  # noqa: B018 - a root agent whose key nobody pins could only be refused
    return service


async def reload_service(settings: Settings, service: Service) -> None:
    """Take over principals, policies, trust and private keys from disk: all of them or, where one is broken, none.

    Askings under way go on: the keys that were replaced stay in hand for the grants that name
    them. Cards are fetched again, and the identity provider's keys are read anew before one of
    them is believed. One reload at a time. Raises as ``open_service``.
    """
    issuer, holder = await reopen(settings, KeyName.ISSUER, KeyName.ROOT)
    world, trust = load_world(settings), load_trust(settings.trust_path)
    agents = dataset_agents(settings, trust)
    pinned_holder(trust, settings.root_id, holder.public_key)
    service.metrics_token = metrics_token(settings, Component.ROOT_AGENT)
    replaced = service.world.evaluator
    service.world, service.trust, service.agents = world, trust, agents
    take_over(service.issuer, issuer)
    take_over(service.holder, holder)
    service.cards.forget_all()
    if isinstance(replaced, HttpEvaluator):
        await replaced.retire()
    if service.identity_provider is not None:
        service.identity_provider.forget()
        await service.identity_provider.warm(service.clock())


def dataset_agents(settings: Settings, trust: Trust) -> tuple[tuple[TrustedAgent, str], ...]:
    """Every trusted agent but this one and those that serve nothing, with the address to ask it at.

    ``DATASET_AGENT_URL`` is the address of the agent ``DATASET_AGENT_AGENT_ID``; others are
    asked where the trust file says.
    """
    agents = tuple(
        (agent, settings.url if agent.id == settings.agent_id else agent.url)
        for agent in trust.agents.values()
        if agent.id != settings.root_id and agent.datasets != frozenset()
    )
    if not agents:
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.CONFIGURATION,
            "root_agent.trust.no_agents",
            "the trust file names no dataset agent: run dataset-agent keys init",
        )
    return agents


async def close_service(service: Service) -> None:
    """Give back connections and files."""
    if isinstance(service.cards, CardBook):
        await service.cards.http.aclose()
    if isinstance(service.world.evaluator, HttpEvaluator):
        await service.world.evaluator.close()
    if service.identity_provider is not None:
        await service.identity_provider.close()
    if service.memo is not None:
        await service.memo.close()
    await service.limiter.close()
    service.ledger.close()
    await asyncio.to_thread(service.traces.close)


def _evaluator(settings: Settings, policies: PolicySet) -> Evaluator:
    if settings.policy_url:
        return HttpEvaluator(settings.policy_url, settings.policy_budget, private_network=settings.private_network)
    return InProcessEvaluator(policies, settings.policy_budget)
