"""Which results may be stored and found again, and what they are stored as."""

from __future__ import annotations

from contract.authority import Authority
from contract.call import RESULT_MEDIA_TYPE
from contract.result import Intent, ResultDocument
from contract.scope import Sensitivity
from control_plane.descriptor import Effect
from remote_agent.derived import family_of
from remote_agent.outcome import BoundCall, Found
from remote_agent.service import Service


def reusable(call: BoundCall, service: Service) -> bool:
    """Whether this call's result may be stored and reused here.

    Not so while the keys of the cache are newer than the engine that this call began with.
    """
    served, _, _ = call.parts()
    return service.cache_enabled and served.mask_id == service.mask_id and storable(call)


def storable(call: BoundCall) -> bool:
    """Whether a call's result is one to store: read-only, deterministic, all its own, not opted out, approved for nobody.

    What was approved is one execution: a stored result of it would be an answer that nobody approved.
    """
    _, capability, _ = call.parts()
    return (
        call.media_type == RESULT_MEDIA_TYPE
        and capability.descriptor.cacheable
        and capability.descriptor.effect in (Effect.READ, Effect.COMPUTE)
        and capability.template.deterministic
        and capability.descriptor.delegates is None
        and not capability.descriptor.requires_review
    )


def stale_s(authority: Authority, call: BoundCall) -> int:
    """For how many seconds past its time a stored result may be answered: the publisher's, where the policy allows so many.

    Of a restricted capability it is none: an answer that says STALE tells that somebody asked before.
    """
    if authority.sensitivity is Sensitivity.RESTRICTED:
        return 0
    return min(call.parts()[0].descriptor.freshness.stale_s or 0, authority.decision.obligations.stale_s)


async def keep(authority: Authority, call: BoundCall, found: Found, service: Service, owner: str) -> None:
    """Store what was run, for its partition, under the lease of ``owner``; a large result is not stored."""
    if not isinstance(found.document, ResultDocument):
        return
    served, _ = call.place()
    intent = intent_of(call)
    await service.cache.keep(
        authority,
        intent,
        found.document,
        found.execution,
        freshness_class=call.freshness_class,
        reuse_s=served.descriptor.freshness.reuse_s,
        now=service.clock(),
        stale_s=stale_s(authority, call),
        family=family_of(authority, call, intent),
        owner=owner,
    )


def intent_of(call: BoundCall) -> Intent:
    """The meaning of a call, equal for every wording that resolves to it."""
    _, capability, bound = call.parts()
    return Intent(
        dataset=call.call.dataset,
        capability=call.call.capability,
        template_digest=capability.template.digest,
        arguments=bound.canonical,
    )
