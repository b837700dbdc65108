"""A call as the root agent would send it for a person: to explain its key, never to run it.

The grant is real and worthless: minted, derived and verified as any other, with keys that are
made here and forgotten, which nobody pins. So what a key depends on is computed by the request
path itself, and no second rule says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from contract.authority import Authority
from contract.call import Operation
from contract.canonical import sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.principal import Principal
from contract.scope import Scope
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import decide
from control_plane.descriptor import DatasetDescriptor
from control_plane.manifest import CapabilityManifest
from control_plane.periods import resolve_periods
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.mint import mint_root
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.verify import verify
from remote_agent.admin_names import unknown_name
from remote_agent.admin_query import Asked
from remote_agent.answer import bind
from remote_agent.deciding import admission_request, admit
from remote_agent.outcome import BoundCall, Request
from remote_agent.service import ServedDataset, World

_CLIENT = "urn:dataset-agent:explain"
_NOWHERE = "http://127.0.0.1"


async def as_asked(
    asked: Asked, world: World, *, agent_id: str, zone: ZoneInfo, now: float
) -> tuple[BoundCall, Decision, Authority]:
    """The call inside its grant, and the authority that this agent's own decision makes of it.

    Periods are read as the root agent reads them, in the zone that was asked for, else in ``zone``.

    Raises ``NotGranted`` where the call would not be granted, NOT_FOUND for a person that the
    directory does not name, and for a dataset and a capability that are not served.
    """
    principal = world.directory.named(asked.principal)
    if principal is None:
        raise DatasetAgentError(
            Component.REMOTE_AGENT,
            Category.NOT_FOUND,
            "remote_agent.admin.principal",
            "principals.yaml names nobody so: give a name that stands there",
        )
    served, capability = _place(asked, world)
    asked = replace(asked, arguments=_arguments(asked, capability, asked.zone or zone, now))
    scope = _scope(served.descriptor, capability, principal, agent_id)
    decision = await decide(admission_request(scope, principal, asked.capability, world, now), world.evaluator)
    if decision.verdict is not Verdict.GRANTED:
        raise NotGranted(
            decision.reason, decision.rationale, policy_id=decision.policy_id, policy_version=decision.policy_version
        )
    obligations = decision.obligations
    scope = replace(scope, columns=obligations.columns, constraints=obligations.rows)
    operation = Operation("SendMessage", call_hash=sha256_hex(asked.call))
    grant = _grant(principal, scope, decision, operation, agent_id=agent_id, now=now)
    call = bind(Request(client=_CLIENT, operation=operation, grants=(), call=asked.call), grant, agent_id, world)
    return call, *await admit(grant, call, world, now)


def _place(asked: Asked, world: World) -> tuple[ServedDataset, CapabilityManifest]:
    served = world.datasets.get(asked.dataset)
    if served is None:
        if asked.dataset in world.broken:
            told = "the descriptor of this dataset cannot be used: dataset-agent datasets validate says why"
            raise NotGranted(Reason.DESCRIPTOR_INVALID, told)
        raise unknown_name("dataset", asked.dataset, world.datasets)
    capability = served.capabilities.get(asked.capability)
    if capability is None:
        raise unknown_name("capability", asked.capability, served.capabilities)
    return served, capability.descriptor


def _arguments(asked: Asked, capability: CapabilityManifest, zone: ZoneInfo, now: float) -> Mapping[str, Any]:
    found = resolve_periods(capability, asked.arguments, zone=zone, now=now)
    if found.unread:
        told = "; ".join(f"{name}: {why}" for name, why in found.unread.items())
        raise NotGranted(Reason.ARGUMENTS_MISSING, told)
    return found.arguments


def _scope(descriptor: DatasetDescriptor, capability: CapabilityManifest, principal: Principal, agent_id: str) -> Scope:
    """As ``root_agent.hops.scope_of`` asks for one capability of one revision."""
    return Scope(
        dataset=descriptor.dataset,
        dataset_version=descriptor.version,
        revision=descriptor.revision,
        actions=frozenset({capability.name}),
        locations=frozenset({agent_id}),
        max_sensitivity=min(capability.sensitivity, principal.clearance, key=lambda level: level.rank),
    )


def _grant(
    principal: Principal, scope: Scope, decision: Decision, operation: Operation, *, agent_id: str, now: float
) -> VerifiedGrant:
    issuer, holder = FileSigner.new(), FileSigner.new()
    root = TrustedAgent(_CLIENT, _NOWHERE, holder.public_key)
    receiver = TrustedAgent(agent_id, _NOWHERE, FileSigner.new().public_key)
    trusted = TrustedIssuer(principal.issuer, (issuer.public_key,), (), frozenset({principal.tenant}))
    trust = Trust({trusted.url: trusted}, {agent.id: agent for agent in (root, receiver)})
    token = mint_root(
        issuer,
        issuer_url=principal.issuer,
        decision=decision,
        principal=principal,
        holder=root,
        scope=scope,
        intent=next(iter(scope.actions)),
        rctx={"trace_id": "0" * 32},
        now=now,
    )
    chain = derive((token,), holder, audience=receiver, operation=operation, now=now)
    return verify(header_value(chain), trust=trust, audience=agent_id, client=_CLIENT, operation=operation, now=now)
