"""How a question is read: over what verified cards offer, for who asks; none of it authorizes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.interpret import Heard, hear
from control_plane.limits import LEAVE_OUT, LIMITED, is_limiting
from control_plane.periods import WRITTEN, period_type, resolve_periods, told
from control_plane.proposals import Proposal
from control_plane.registry import InvalidDataset
from delegation.offer import Offer
from root_agent.asking import Asking, Missing, NotUnderstood, Target
from root_agent.catalogue import stranger
from root_agent.service import Service
from root_agent.wanted import TypedCall


def best_reading(asking: Asking, now: float) -> Heard:
    """The best reading of the question over what may be used and what is public anyway.

    A public dataset this person may not use is read too, so that the answer is a refusal that
    says so and not an answer to another question; on a tie the usable one wins.
    """
    question, zone = asking.wanted.question or "", asking.wanted.zone
    usable = hear(question, _descriptors(offer.descriptor for offer in asking.candidates), now=now, zone=zone)
    public = hear(question, _descriptors(offer.public for offer in asking.readable), now=now, zone=zone)
    return Heard(
        _better(usable.proposal, public.proposal),
        _better(usable.nearest, public.nearest),
        _better(usable.far, public.far),
    )


def _better(usable: Proposal | None, public: Proposal | None) -> Proposal | None:
    return public if usable is None or (public is not None and public.score > usable.score) else usable


def resolved(asking: Asking, proposal: Proposal | None, service: Service, heard: Heard | None = None) -> Asking:
    """The asking with the call that is proposed, or ended: where words are left over, with these words."""
    nearest = None if heard is None else heard.nearest or heard.far
    if proposal is None and nearest is not None and nearest.left:
        limits = is_limiting(asking.wanted.question or "", nearest.left)
        told = NotUnderstood(nearest.left, nearest.dataset, nearest.capability, limits)
        stop = NotGranted(Reason.INTENT_NOT_UNDERSTOOD, LIMITED if limits else LEAVE_OUT)
        return replace(asking, not_understood=told).stopped(stop.decision(asking.world_in(service).policy_version))
    if proposal is None:
        raise NotGranted(
            Reason.INTENT_NOT_UNDERSTOOD, "the question names no capability that can be asked: try its own words"
        )
    call = TypedCall(proposal.dataset, proposal.capability, dict(proposal.arguments))
    missing = tuple(
        Missing(item.name, str(item.type), tuple(item.values), item.description) for item in proposal.missing
    )
    target = target_of(asking, call)
    capability = _capability(target)
    return replace(asking, target=replace(target, missing=_by_period(missing, capability) if capability else missing))


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
    call, capability = target.call, _capability(target)
    if capability is None:
        return target
    missing = tuple(
        Missing(parameter.name, parameter.type.value, tuple(parameter.values), parameter.description)
        for parameter in capability.parameters
        if parameter.required and parameter.name not in call.arguments
    )
    return replace(target, missing=_by_period(missing, capability))


def with_bounds(asking: Asking, target: Target, now: float) -> Target:
    """A typed call with the bounds that its periods stand for, where and when it is asked (``now``, POSIX seconds).

    What the dataset agent is asked has parameters only. A period that is not read is told as missing.
    """
    capability = _capability(target)
    if capability is None or not any(period.name in target.call.arguments for period in capability.periods):
        return with_missing(target)
    found = resolve_periods(capability, target.call.arguments, zone=asking.wanted.zone, now=now)
    # A bound that was said beside its period goes too: what completes the call would say both again.
    ends = {end for period in capability.periods if period.name in found.unread for end in (period.from_, period.to)}
    arguments = {name: value for name, value in found.arguments.items() if name not in ends}
    target = with_missing(replace(target, call=replace(target.call, arguments=arguments)))
    unread = tuple(
        Missing(period.name, period_type(capability, period).value, (), found.unread[period.name])
        for period in capability.periods
        if period.name in found.unread
    )
    others = tuple(item for item in target.missing if item.name not in found.unread)
    return replace(target, missing=unread + others, is_unread=bool(unread))


def _capability(target: Target) -> DatasetCapability | None:
    descriptor = target.descriptor
    return descriptor.capability(target.call.capability) if isinstance(descriptor, DatasetDescriptor) else None


def _by_period(missing: Sequence[Missing], capability: DatasetCapability) -> tuple[Missing, ...]:
    """One entry for a period both of whose bounds are missing: people say it at once."""
    names = {item.name for item in missing}
    whole = {period.from_: period for period in capability.periods if {period.from_, period.to} <= names}
    ends = {period.to for period in whole.values()}
    found: list[Missing] = []
    for item in missing:
        period = whole.get(item.name)
        if period is not None:
            said = _apart(item, capability) if WRITTEN in item.description else told(capability, period)
            found.append(Missing(period.name, item.type, (), said))
        elif item.name not in ends:
            found.append(item)
    return tuple(found)


def _apart(item: Missing, capability: DatasetCapability) -> str:
    """What is told of a period, without the description of the one parameter that it was told of."""
    parameter = capability.parameter(item.name)
    return item.description.removesuffix(f". {parameter.description}" if parameter and parameter.description else "")


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
    heard = hear(asking.wanted.question, usable, now=service.clock(), zone=asking.wanted.zone)
    readings = [reading for reading in (heard.proposal, heard.nearest) if reading is not None]
    return all(item.dataset in shown and shown[item.dataset].capability(item.capability) for item in readings)
