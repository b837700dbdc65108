"""Who may share an answer, and which questions are one: an oracle written from the design's page on the cache alone.

It knows nothing of the product: no import of it, no key, no encoding. A request is given as what
it *means*: every dimension by its value, every argument by its mathematical value. How it is
written is no matter of the oracle's (``spelling`` writes it).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields

RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class Rule:
    """One restriction of the rows: exactly one of the members is not ``None`` for each kind that restricts."""

    one_of: frozenset[str | int] | None = None
    not_one_of: frozenset[str | int] | None = None
    min: str | int | None = None
    max: str | int | None = None
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, by whom and under which authority, as meaning.

    ``rows`` are the restrictions that hold, by column, with attributes bound. ``columns`` is
    ``None`` for all. ``group`` is the least size of a group and how counts are rounded.
    ``arguments`` holds every parameter, given or not.
    """

    issuer: str
    tenant: str
    dataset: str
    dataset_version: str
    revision: str
    schema_version: str
    capability: str
    template: str
    group: tuple[int, int | None] | None
    principal_class: str
    rows: Mapping[str, Rule]
    columns: frozenset[str] | None
    masks: Mapping[str, str]
    sensitivity: str
    ceiling: str
    policy_id: str
    policy_version: str
    freshness_class: str
    media_type: str
    subject: str
    arguments: Mapping[str, Hashable]


def partition(request: Request) -> Hashable:
    """Everything that an authorization may depend on. A person matters where the capability is restricted."""
    shared = [
        frozenset(value.items()) if isinstance(value, Mapping) else value
        for field in fields(request)
        if field.name not in ("subject", "arguments")
        for value in [getattr(request, field.name)]
    ]
    return (*shared, request.subject if request.sensitivity == RESTRICTED else None)


def meaning(request: Request) -> Hashable:
    return frozenset(request.arguments.items())


def same(left: Request, right: Request) -> bool:
    """Whether one may be answered with what was stored for the other."""
    return partition(left) == partition(right) and meaning(left) == meaning(right)


def differing(left: Request, right: Request) -> frozenset[str]:
    """The dimensions in which two requests differ; an argument as ``argument NAME``."""
    found = {
        field.name
        for field in fields(left)
        if field.name not in ("subject", "arguments") and getattr(left, field.name) != getattr(right, field.name)
    }
    if RESTRICTED in (left.sensitivity, right.sensitivity) and left.subject != right.subject:
        found.add("subject")
    found |= {f"argument {name}" for name, value in left.arguments.items() if right.arguments[name] != value}
    return frozenset(found)
