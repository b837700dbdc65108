"""Facts of a decision, changed one at a time: what an explanation tries, and nothing that is ever decided by.

A value that no policy and no directory writes out is not tried. A change says what it is about
(``about``), so that two changes of one fact are never tried together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from contract.principal import AttributeValue, Principal
from contract.scope import Sensitivity
from control_plane.admission_rules import EFFECTS_ATTRIBUTE, AdmissionRequest, Review
from control_plane.cedar_clauses import literals
from control_plane.cedar_files import Policy
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.obligations import SET_KINDS

STAND_IN: Final = "(any)"
"""Stands for the value of an attribute that an obligation binds and that nobody writes out."""


@dataclass(frozen=True, slots=True)
class Change:
    """One fact that would be another. ``of_person`` where it is the principal's or the request's own."""

    about: str
    text: str
    request: AdmissionRequest
    of_person: bool = True


def changes(request: AdmissionRequest, policies: Iterable[Policy], classes: Iterable[str]) -> tuple[Change, ...]:
    """What could be tried of a request. ``classes`` are principal classes that are known beside the policies' own."""
    asked = tuple(policies)
    found: list[Change] = [*_stated(request)]
    if isinstance(request.descriptor, DatasetDescriptor):
        found += _published(request, request.descriptor)
    if request.principal is not None:
        found += _personal(request, request.principal, asked, classes)
    return tuple(found)


def together(request: AdmissionRequest, chosen: Iterable[Change]) -> AdmissionRequest:
    """A request with several changes, each of a fact of its own; of people and requests only."""
    for change in chosen:
        request = _merged(request, change.request, change.about)
    return request


def _merged(base: AdmissionRequest, changed: AdmissionRequest, about: str) -> AdmissionRequest:
    kind, _, name = about.partition(" ")
    if kind == "request":
        return replace(base, **{name: getattr(changed, name)})
    mine, theirs = base.principal, changed.principal
    if mine is None or theirs is None:
        return base
    if kind == "attribute":
        held = {key: value for key, value in mine.attributes.items() if key != name}
        if name in theirs.attributes:
            held[name] = theirs.attributes[name]
        return replace(base, principal=replace(mine, attributes=MappingProxyType(held)))
    return replace(base, principal=replace(mine, **{name: getattr(theirs, name)}))


def _stated(request: AdmissionRequest) -> Iterator[Change]:
    """What the asking side says or demands, left out; and the approval that a call of it waits for."""
    told = {
        "stated_revision": "no other revision relied on",
        "stated_dataset_version": "no other dataset version relied on",
        "stated_policy_version": "no unlisted policy version relied on",
        "schema_version": "no other schema version expected",
        "max_age_s": "any age of the data accepted",
    }
    for name, text in told.items():
        if getattr(request, name) is not None:
            without: dict[str, Any] = {name: None}
            yield Change(f"request {name}", text, replace(request, **without))
    published = request.descriptor if isinstance(request.descriptor, DatasetDescriptor) else None
    capability = published.capability(request.capability) if published is not None else None
    if capability is not None and capability.requires_review and request.review is Review.OUTSTANDING:
        yield Change("request review", "approved by another person", replace(request, review=Review.GIVEN))


def _published(request: AdmissionRequest, descriptor: DatasetDescriptor) -> Iterator[Change]:
    """What the publisher could say otherwise."""

    def other(text: str, changed: DatasetDescriptor) -> Change:
        return Change(f"descriptor {text}", text, replace(request, descriptor=changed), of_person=False)

    if request.capability in descriptor.prohibited:
        kept = tuple(name for name in descriptor.prohibited if name != request.capability)
        yield other("prohibited without it", descriptor.model_copy(update={"prohibited": kept}))
    capability = descriptor.capability(request.capability)
    if capability is None:
        return
    updates: dict[str, Mapping[str, Any]] = {}
    if capability.requires_review:
        updates["the capability without requires_review"] = {"requires_review": False}
    if capability.policy_id is not None:
        updates["the capability without policy_id"] = {"policy_id": None}
    if capability.freshness_requirement_s is not None:
        updates["the capability without freshness_requirement_s"] = {"freshness_requirement_s": None}
    if capability.retention_requirement:
        updates["the capability without retention_requirement"] = {"retention_requirement": None}
    for text, update in updates.items():
        yield other(text, _with_capability(descriptor, capability.model_copy(update=dict(update))))


def _with_capability(descriptor: DatasetDescriptor, changed: DatasetCapability) -> DatasetDescriptor:
    kept = tuple(changed if item.name == changed.name else item for item in descriptor.capabilities)
    return descriptor.model_copy(update={"capabilities": kept})


def _personal(
    request: AdmissionRequest, person: Principal, policies: tuple[Policy, ...], classes: Iterable[str]
) -> Iterator[Change]:
    def other(name: str, text: str, value: Any) -> Change:
        return Change(f"principal {name}", text, replace(request, principal=replace(person, **{name: value})))

    held = person.entitlements.get(request.dataset, frozenset())
    entitled = person.holds(request.dataset, request.capability)
    names = held - {request.capability} if entitled else held | {request.capability}
    yield other(
        "entitlements",
        "not entitled to the capability" if entitled else "entitled to the capability",
        MappingProxyType({**person.entitlements, request.dataset: names}),
    )
    compared = [pair for policy in policies for pair in literals(policy.document)]
    for level in _levels(request, person, {value for fact, value in compared if fact == "clearance"}):
        yield other("clearance", f"cleared for {level.value}", level)
    of_dataset = [request.descriptor.tenant] if isinstance(request.descriptor, DatasetDescriptor) else []
    for name, known in (("tenant", of_dataset), ("principal_class", list(classes))):
        written = {value for fact, value in compared if fact == name and isinstance(value, str)}
        for text in sorted({*known, *written} - {getattr(person, name)}):
            yield other(name, f"of the {name.replace('principal_', '')} {text}", text)
    for name, values in _attributes(request, person, policies, compared).items():
        for value in values:
            yield _attribute(request, person, name, value)


def _levels(request: AdmissionRequest, person: Principal, written: set[Any]) -> list[Sensitivity]:
    """The clearances that make a difference: what the capability needs, one less, and those that policies compare with."""
    descriptor = request.descriptor
    capability = descriptor.capability(request.capability) if isinstance(descriptor, DatasetDescriptor) else None
    needed = [] if capability is None else [capability.sensitivity.rank, capability.sensitivity.rank - 1]
    return [
        level for level in Sensitivity if level is not person.clearance and (level.rank in needed or level in written)
    ]


def _attributes(
    request: AdmissionRequest, person: Principal, policies: Iterable[Policy], compared: list[tuple[str, Any]]
) -> dict[str, list[AttributeValue | None]]:
    """Values to try of each attribute that is read; ``None`` is to be without it."""
    found: dict[str, list[AttributeValue | None]] = {}

    def add(name: str, *values: AttributeValue | None) -> None:
        known = found.setdefault(name, [None] if name in person.attributes else [])
        known.extend(value for value in values if value not in known and value != person.attributes.get(name))

    for policy in policies:
        for name in policy.reads:
            add(name)
        for name, kind in policy.obligations.references():
            add(name)
            if name not in person.attributes:
                add(name, (STAND_IN,) if kind in SET_KINDS else STAND_IN)
    for fact, value in compared:
        kind, _, name = fact.partition(".")
        if kind == "attributes" and name:
            add(name, *_near(value))
    if isinstance(request.descriptor, DatasetDescriptor):
        capability = request.descriptor.capability(request.capability)
        effects = person.attributes.get(EFFECTS_ATTRIBUTE, ())
        if capability is not None and isinstance(effects, tuple) and capability.effect.value not in effects:
            add(EFFECTS_ATTRIBUTE, (*effects, capability.effect.value))
    return found


def _near(value: Any) -> tuple[AttributeValue, ...]:
    """A value that a condition compares with, in the forms an attribute may hold it in, and what lies beside it."""
    if isinstance(value, bool):
        return (value, not value)
    if isinstance(value, int):
        return (value, value + 1, value - 1)
    return (value, (value,)) if isinstance(value, str) else ()


def _attribute(request: AdmissionRequest, person: Principal, name: str, value: AttributeValue | None) -> Change:
    held = {key: item for key, item in person.attributes.items() if key != name}
    if value is None:
        text = f"without the attribute {name}"
    else:
        held[name] = value
        text = f"with the attribute {name} {_shown(value)}"
    changed = replace(request, principal=replace(person, attributes=MappingProxyType(held)))
    return Change(f"attribute {name}", text, changed)


def _shown(value: AttributeValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)
