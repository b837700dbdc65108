"""Whether rows that were made earlier, or for somebody else, are those that would be made now."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from contract.authority import Authority
from contract.verdict import NotGranted, Reason
from remote_agent.outcome import BoundCall

_ORIGINS: Final = frozenset({"grant", "decision", "principal", "scope"})


def same_rows(one: Authority | None, other: Authority) -> bool:
    """Whether both are for the same person, and the same in every respect that decides which rows and columns there are."""
    return one is not None and _shape(one) == _shape(other)


def check_call(authority: Authority, call: BoundCall) -> None:
    """That an authority is for this very call: asked right before an engine is. Raises ``NotGranted``.

    Admission made it for one; what was swapped, added or mixed up since is refused where it would be used.
    """
    for_call = (authority.dataset, authority.capability, authority.scope, authority.principal.key)
    if for_call != (call.call.dataset, call.call.capability, call.scope, call.principal.key):
        raise NotGranted(Reason.GRANT_WIDENED, "the call is not the one that was admitted")


def same_policy(one: Authority, other: Authority) -> bool:
    """Whether the same policy in the same version permits both."""
    return (one.decision.policy_id, one.decision.policy_version) == (
        other.decision.policy_id,
        other.decision.policy_version,
    )


def same_template(one: BoundCall, other: BoundCall) -> bool:
    """Whether both calls run the same template."""
    return one.place()[1].template.digest == other.place()[1].template.digest


def _shape(authority: Authority) -> list[object]:
    """Everything of an authority but how it came about."""
    shaping = (field.name for field in fields(authority) if field.name not in _ORIGINS)
    who = authority.principal
    return [who.key, who.tenant, who.principal_class, *(getattr(authority, name) for name in shaping)]
