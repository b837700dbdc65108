"""The asking path. Read this file first on the asking side.

    interpret_intent -> discover_datasets -> resolve_capability -> evaluate_admission
        GRANTED        -> plan -> execute -> validate -> record_evidence -> explain_response
        REFUSED        -> record_refusal
        INDETERMINATE  -> record_indeterminate
        GRANTED_REQUIRES_REVIEW (from execute) -> await_approval

Each step takes a frozen ``Asking`` and returns the next. A step that cannot go on raises
``NotGranted``; ``take`` turns that into the decision the path ends with. Nothing here knows
A2A or ADK: ``workflow.py`` runs these steps as the nodes of an ADK ``Workflow`` and routes on
``Asking.route`` alone. ``execute`` is the one step it makes itself: ``prepare``, the exchange with
the dataset agent, ``settle``, and where ``is_stale``, ``readmit`` and once more.

Looking into a cache is no step of the root: only the dataset agent may look into its
cache, after its own admission, so a hit is one of the ways it executes a call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from contract.errors import SignerUnavailable
from contract.key_ring import sign_with
from contract.result import instant
from contract.verdict import Decision, NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, Review, decide
from control_plane.descriptor import DatasetDescriptor
from control_plane.discovery_admitted import discover_admitted
from control_plane.interpret import check_proposal
from delegation.receipt import verify_reply
from delegation.reply import Outcome, Reply, stop_of
from delegation.sending import Plan, Sent, send_with_leaf
from delegation.trace import traceparent
from grants.mint import mint_root
from root_agent.asking import Answer, Asking, Hop, Target
from root_agent.catalogue import catalogued
from root_agent.doors import bytes_of, operation_of, planned_call, tool_for
from root_agent.evidence_row import evidence_row
from root_agent.hops import admit_hops, scope_of, verify_hops
from root_agent.reading import best_reading, narrowed, resolved, shown_to_model, target_of, with_bounds, with_missing
from root_agent.relaying import draft_relay, run_context, sealed
from root_agent.remembering import read_anew, recalled, remember
from root_agent.service import Service
from root_agent.veil import outward

log = logging.getLogger(__name__)

# The revision is another one by now, or the remote remembers no grant as old as this one: neither
# says anything about this person, and both end with a decision and a grant that are made anew.
_STALE: Final = frozenset({Reason.UNKNOWN_DATASET_REVISION, Reason.REPLAY_MEMORY_LOST})

Step = Callable[[Asking, Service], Awaitable[Asking]]


async def take(step: Step, asking: Asking, service: Service) -> Asking:
    """One step. A stop becomes a decision; an unforeseen fault becomes one too, by type only."""
    try:
        return await step(asking, service)
    except NotGranted as stop:
        return asking.stopped(stop.decision(asking.world_in(service).policy_version))
    except SignerUnavailable:  # the signer has logged how
        unsigned = NotGranted(Reason.KEYS_UNAVAILABLE, "a key of this agent cannot be used now, so nothing is signed")
        return asking.stopped(unsigned.decision(asking.world_in(service).policy_version))
    except Exception as fault:
        # The text of an unforeseen fault may quote an argument or a row: only its type is logged.
        log.error("asking failed in %s with %s", getattr(step, "__name__", "a step"), type(fault).__name__)
        failed = NotGranted(Reason.EXECUTION_FAILED, "the root agent failed")
        return asking.stopped(failed.decision(asking.world_in(service).policy_version))


async def interpret_intent(asking: Asking, service: Service) -> Asking:
    """Who asks, in this service's own directory; the words themselves prove nothing.

    Their meaning needs descriptors, so it is read in ``resolve_capability``.
    """
    world = service.world
    return replace(asking, world=world, principal=service.principal_of(asking.person, world))


async def discover_datasets(asking: Asking, service: Service) -> Asking:
    """What verified cards offer, and of that what this person may use, before it is cut to a few."""
    asking = await catalogued(asking, service)
    if asking.stop is not None or asking.principal is None or asking.wanted.question is None:
        return asking
    catalogue = await service.finder.over(asking.offered)
    world = asking.world_in(service)
    rules = (world.evaluator, world.policy_version, service.clock())
    found = await discover_admitted(
        catalogue.index, asking.wanted.question, asking.principal, *rules, limit=service.discovery_limit
    )
    candidates = tuple(narrowed(catalogue.of(item.entry), frozenset(item.capabilities)) for item in found.candidates)
    readable = catalogue.readable(asking.wanted.question)
    return replace(asking, candidates=candidates, readable=readable, funnel=found.funnel)


async def resolve_capability(asking: Asking, service: Service) -> Asking:
    """Exactly one (dataset, capability) with typed arguments, by code."""
    now = service.clock()
    if asking.wanted.call is not None:
        return replace(asking, target=with_bounds(asking, target_of(asking, asking.wanted.call), now))
    heard = best_reading(asking, now)
    reading = heard.proposal
    if reading is not None and not reading.missing:
        return resolved(read_anew(asking, service, now), reading, service)
    # The reader's own finding stands; a memo may only add to it.
    return resolved(asking, await recalled(asking, service, reading, now) or reading, service, heard)


async def resolve_remembered(asking: Asking, service: Service, now: float) -> Asking | None:
    """As ``resolve_capability``, without the model that would be asked: from what equal words were read as."""
    found = await recalled(asking, service, best_reading(asking, now).proposal, now)
    return None if found is None else resolved(asking, found, service)


async def resolve_proposed(asking: Asking, proposed: Mapping[str, Any] | None, service: Service, now: float) -> Asking:
    """As ``resolve_capability``, from what a model proposed; the same code confirms it.

    ``now`` is when it was asked, however long it took: *yesterday* is the day before that one.
    """
    if proposed is None:
        return resolved(asking, None, service)
    shown, zone = shown_to_model(asking), asking.wanted.zone
    asking = read_anew(asking, service, now)
    return resolved(asking, check_proposal(dict(proposed), shown, now=now, zone=zone), service)


async def evaluate_admission(asking: Asking, service: Service) -> Asking:
    """The root's own decisions: about the call, and about all that completes it. GRANTED ones alone let it mint."""
    principal, target = asking.principal, asking.target
    if principal is None or target is None:
        raise NotGranted(Reason.INTENT_NOT_UNDERSTOOD, "nothing was resolved to be admitted")
    world = asking.world_in(service)
    decision = await decide(
        AdmissionRequest(
            principal=principal,
            dataset=target.call.dataset,
            capability=target.call.capability,
            descriptor=target.descriptor,
            policy_version=world.policy_version,
            now=service.clock(),
            max_age_s=asking.wanted.max_age_s,
            schema_version=asking.wanted.schema_version,
            review=Review.ELSEWHERE,  # the dataset agent's to ask for, and of each call anew
        ),
        world.evaluator,
    )
    if decision.verdict is not Verdict.GRANTED:
        return replace(asking, admitted=decision, stop=decision)
    hops = await admit_hops(asking, principal, _asked(target, decision), service)
    if target.is_unread:
        names = ", ".join(missing.name for missing in target.missing)
        raise NotGranted(Reason.ARGUMENTS_MISSING, f"the call does not say, in a form that is read: {names}")
    if target.missing and asking.wanted.question is not None:
        # Of a typed call the dataset agent says so itself, in a task that a further message completes.
        names = ", ".join(missing.name for missing in target.missing)
        raise NotGranted(Reason.ARGUMENTS_MISSING, f"the question does not say: {names}")
    return replace(asking, admitted=decision, hops=hops, stop=None)


async def plan(asking: Asking, service: Service) -> Asking:
    """One admitted call, as the bytes that will be sent, and the root token for just that and what completes it.

    The token may be passed on as often as the call needs, so a plain call's not at all. It does not outlive the
    identity token that says who asks.
    """
    principal, target, decision = asking.principal, asking.target, asking.admitted
    if principal is None or target is None or decision is None:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "there is nothing admitted to plan")
    asked = _asked(target, decision)
    scope = scope_of(asked, principal)
    now = service.clock()
    life = asking.person.grant_life(service.root_ttl, now)
    tool = tool_for(asking, asked.descriptor, asked.capability)
    call = planned_call(target.call, tool)
    with service.measures.granting("root"):
        token = await sign_with(
            service.issuer,
            lambda issuer: mint_root(
                issuer,
                issuer_url=service.issuer_url,
                decision=decision,
                principal=principal,
                holder=service.holder_entry,
                scope=scope,
                further=[(scope_of(hop, principal), hop.decision) for hop in asking.hops],
                intent=asked.capability.name,
                rctx=run_context(asking),
                now=now,
                ttl=life,
                max_depth=1 + len(asking.hops),
            ),
        )
    planned = Plan(call, asked.agent_id, scope, (token,), media_type=asking.wanted.media_type, tool=tool)
    return replace(asking, plan=planned)


def prepare(asking: Asking, service: Service) -> Sent:
    """Headers for one attempt, made at the moment it leaves: a fresh leaf for exactly these bytes.

    The plan is checked here, where it is consumed, and not only where it was made.
    """
    planned, target, decision = asking.plan, asking.target, asking.admitted
    if planned is None or target is None or decision is None or asking.verdict is not Verdict.GRANTED:
        raise NotGranted(Reason.NO_ACTIVE_GRANT, "nothing was admitted to be sent")
    if planned.call.raw != bytes_of(target.call, planned.tool):
        raise NotGranted(Reason.GRANT_WIDENED, "the plan is not the call that was admitted")
    person = asking.principal if asking.continued else None  # whose task it goes on with
    with service.measures.granting("leaf"):
        return send_with_leaf(
            planned,
            service.holder,
            client=service.root_id,
            audience=service.trust.agent(planned.agent_id),
            now=service.clock(),
            ttl=service.leaf_ttl,
            headers=lambda agent, grant: service.headers(agent, grant, traceparent(asking.trace_id), person=person),
            operation=operation_of(planned, followed=asking.watch is not None),
        )


def settle(asking: Asking, service: Service, sent: Sent | None, reply: Reply) -> Asking:
    """After one attempt: the typed outcome decides, and nothing else a remote says."""
    asking = replace(asking, sent=sent, reply=reply, attempts=asking.attempts + 1)
    if reply.outcome is Outcome.COMPLETED and sent is not None:
        return asking
    return asking.stopped(stop_of(reply).decision(asking.world_in(service).policy_version))


def is_stale(asking: Asking) -> bool:
    """Whether the card or the grant was out of date, and there is one more attempt."""
    return asking.attempts == 1 and asking.reply is not None and asking.reply.reason in _STALE


async def readmit(asking: Asking, service: Service) -> Asking:
    """Reads anew who asks and the cards of all agents concerned, then admits and plans the same call.

    Grants are not reused.
    """
    if asking.target is None or asking.target.agent_id is None:
        return asking
    for agent_id in (asking.target.agent_id, *(hop.agent_id for hop in asking.hops)):
        service.cards.forget(agent_id)
    fresh = replace(asking, stop=None, admitted=None, hops=(), plan=None, sent=None)
    fresh = await take(interpret_intent, fresh, service)
    if fresh.stop is not None:  # the directory knows them no more
        return fresh
    fresh = await catalogued(fresh, service)
    if fresh.stop is not None:
        return fresh
    fresh = replace(fresh, target=with_missing(target_of(fresh, asking.target.call)))
    fresh = await take(evaluate_admission, fresh, service)
    return await take(plan, fresh, service) if fresh.verdict is Verdict.GRANTED else fresh


async def validate(asking: Asking, service: Service) -> Asking:
    """Signature, digests, grant, call and dataset of the provenance, and all it rests on, before a row is kept.

    The root's own provenance is drafted here too, so that what it cannot seal is never recorded as granted.
    """
    planned, sent, reply, target = asking.plan, asking.sent, asking.reply, asking.target
    if planned is None or sent is None or reply is None or target is None:
        raise NotGranted(Reason.REMOTE_PROVENANCE_INVALID, "the result is not shown: there is nothing to verify")
    verified = verify_reply(reply, plan=planned, sent=sent, descriptor=target.descriptor, trust=service.trust)
    _check_age(asking.wanted.max_age_s, verified.document.as_of, service.clock())
    verify_hops(verified.statement, asking, service)
    return replace(asking, verified=verified, drafted=draft_relay(asking, verified, reply, service))


def _check_age(max_age_s: float | None, as_of: str, now: float) -> None:
    """What a card says is not what was answered: rows, or what they rest on, may be as of an earlier instant."""
    if max_age_s is not None and now - instant(as_of).timestamp() > max_age_s:
        raise NotGranted(
            Reason.FRESHNESS_UNSATISFIABLE, "the result is not shown: it is of older data than the request allows"
        )


async def record_evidence(asking: Asking, service: Service) -> Asking:
    """The root's own row, on disk before rows are shown; without it there are no rows.

    A granted result is relayed under the root's own provenance, drafted before the row is
    committed and sealed with its receipt: the remote's statement travels inside, unchanged.
    """
    decision, drafted = asking.decision, asking.drafted
    if decision is None:
        raise NotGranted(Reason.EXECUTION_FAILED, "nothing was decided")
    if decision.verdict is not Verdict.GRANTED:
        receipt = await service.ledger.append_async(evidence_row(asking, decision, service))
        return replace(asking, evidence=receipt.to_json())
    if drafted is None:
        raise NotGranted(Reason.REMOTE_PROVENANCE_INVALID, "there is no verified result to relay")
    receipt = await service.ledger.append_async(evidence_row(asking, decision, service))
    return await sealed(asking, drafted, receipt, service)


async def record_stop(asking: Asking, service: Service) -> Asking:
    """The terminal row of a refusal or an INDETERMINATE, and the answer without rows."""
    asking = await take(record_evidence, asking, service)
    return await explain_response(asking, service)


async def explain_response(asking: Asking, service: Service) -> Asking:
    """The answer, as the person may see it. Rows only where the path came through granted, verified and recorded."""
    decision = asking.decision or NotGranted(Reason.EXECUTION_FAILED, "nothing was decided").decision(
        asking.world_in(service).policy_version
    )
    whole = decision.verdict is Verdict.GRANTED and asking.evidence is not None and asking.relayed is not None
    if whole:
        await remember(asking, service)
    document = asking.verified.document if whole and asking.verified is not None else None
    if decision.verdict is Verdict.GRANTED and document is None:
        decision = _unproven(asking, service)
    shown, told = outward(asking, decision, asking.world_in(service).policy_version, opaque=service.opaque_refusals)
    return replace(asking, answer=Answer(shown, told, document, asking.evidence))


def _asked(target: Target, decision: Decision) -> Hop:
    """The admitted call itself, as the first of the hops. Raises where no agent offers it."""
    descriptor = target.descriptor
    capability = descriptor.capability(target.call.capability) if isinstance(descriptor, DatasetDescriptor) else None
    if target.agent_id is None or capability is None or not isinstance(descriptor, DatasetDescriptor):
        raise NotGranted(Reason.UNREGISTERED_CAPABILITY, "no agent offers the capability")
    return Hop(target.agent_id, descriptor, capability, decision)


def _unproven(asking: Asking, service: Service) -> Decision:
    stop = NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the result was not verified and recorded, so nothing is shown")
    return stop.decision(asking.world_in(service).policy_version)
