"""Which results may be stored and found again, and what they are stored as."""

from __future__ import annotations

from contract.call import RESULT_MEDIA_TYPE
from contract.result import Intent
from control_plane.descriptor import Effect
from remote_agent.outcome import BoundCall
from remote_agent.service import Service


def reusable(call: BoundCall, service: Service) -> bool:
    """Whether this call's result may be stored and reused here.

    Not so while the keys of the cache are newer than the engine that this call began with.
    """
    served, _, _ = call.parts()
    return service.cache_enabled and served.mask_id == service.mask_id and storable(call)


def storable(call: BoundCall) -> bool:
    """Whether a call's result is one to store: read-only, deterministic, all its own, not opted out."""
    _, capability, _ = call.parts()
    return (
        call.media_type == RESULT_MEDIA_TYPE
        and capability.descriptor.cacheable
        and capability.descriptor.effect in (Effect.READ, Effect.COMPUTE)
        and capability.template.deterministic
        and capability.descriptor.delegates is None
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
