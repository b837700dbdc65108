"""How a question is read: over what verified cards offer, for who asks; none of it authorizes anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from control_plane.interpret import Proposal, interpret
from control_plane.registry import InvalidDataset
from delegation.offer import Offer
from root_agent.asking import Asking, Missing, Target, TypedCall
from root_agent.catalogue import stranger
from root_agent.service import Service


def best_reading(asking: Asking, now: float) -> Proposal | None:
    """The best reading of the question over what may be used and what is public anyway.

    A public dataset this person may not use is read too, so that the answer is a refusal that
    says so and not an answer to another question; on a tie the usable one wins.
    """
    question = asking.wanted.question or ""
    usable = interpret(question, _descriptors(offer.descriptor for offer in asking.candidates), now=now)
    public = interpret(question, _descriptors(offer.public for offer in asking.offered), now=now)
    if usable is None or (public is not None and public.score > usable.score):
        return public
    return usable


def resolved(asking: Asking, proposal: Proposal | None) -> Asking:
    if proposal is None:
        raise NotGranted(
            Reason.INTENT_NOT_UNDERSTOOD, "the question names no capability that can be asked: try its own words"
        )
    call = TypedCall(proposal.dataset, proposal.capability, dict(proposal.arguments))
    missing = tuple(
        Missing(item.name, str(item.type), tuple(item.values), item.description) for item in proposal.missing
    )
    return replace(asking, target=replace(target_of(asking, call), missing=missing))


def target_of(asking: Asking, call: TypedCall) -> Target:
    """The offer of the call's dataset. Where none can be had from the agent that has it, that is the answer."""
    preferred = {(offer.agent_id, offer.dataset) for offer in asking.candidates}
    offers = sorted(asking.offered, key=lambda offer: (offer.agent_id, offer.dataset) not in preferred)
    for offer in offers:
        if offer.dataset == call.dataset:
            return Target(call, offer.agent_id, offer.descriptor)
    for offer in asking.indirect:
        if offer.dataset == call.dataset:
            raise stranger(offer)
    for away in asking.unavailable:
        if away.concerns(call.dataset):
            raise NotGranted(away.decision.reason, away.decision.rationale)
    return Target(call, None, None)


def with_missing(target: Target) -> Target:
    """A typed call with the required parameters, as its agent's card declares them, that it does not give."""
    descriptor, call = target.descriptor, target.call
    capability = descriptor.capability(call.capability) if isinstance(descriptor, DatasetDescriptor) else None
    if capability is None:
        return target
    missing = tuple(
        Missing(parameter.name, parameter.type.value, tuple(parameter.values), parameter.description)
        for parameter in capability.parameters
        if parameter.required and parameter.name not in call.arguments
    )
    return replace(target, missing=missing)


def narrowed(offer: Offer, capabilities: frozenset[str]) -> Offer:
    """The offer with just the capabilities the person may use, for reading a question."""
    return replace(offer, descriptor=_only(offer.descriptor, capabilities), public=_only(offer.public, capabilities))


Shown = TypeVar("Shown", DatasetDescriptor | InvalidDataset, DatasetDescriptor | InvalidDataset | None)


def _only(descriptor: Shown, capabilities: frozenset[str]) -> Shown:
    if not isinstance(descriptor, DatasetDescriptor):
        return descriptor
    kept = tuple(capability for capability in descriptor.capabilities if capability.name in capabilities)
    return descriptor.model_copy(update={"capabilities": kept})


def _descriptors(found: Iterable[DatasetDescriptor | InvalidDataset | None]) -> list[DatasetDescriptor]:
    return [item for item in found if isinstance(item, DatasetDescriptor)]


def shown_to_model(asking: Asking) -> list[DatasetDescriptor]:
    """What a model may read: public descriptors of datasets this person may use."""
    return _descriptors(offer.public for offer in asking.candidates)


def may_ask_model(asking: Asking, service: Service) -> bool:
    """Whether a model is configured and may read this question.

    Not where nothing public can be shown to it, and not where the question itself reads as one
    about something that no public card shows.
    """
    shown = {item.dataset: item for item in shown_to_model(asking)}
    if service.model is None or asking.wanted.question is None or not shown:
        return False
    usable = _descriptors(offer.descriptor for offer in asking.candidates)
    reading = interpret(asking.wanted.question, usable, now=service.clock())
    if reading is None:
        return True
    return reading.dataset in shown and shown[reading.dataset].capability(reading.capability) is not None
