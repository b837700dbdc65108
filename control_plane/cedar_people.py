"""What policies are told of people, parsed once for each version of a person.

A directory keeps its people's objects until it is read again, and they are frozen: so a person is known here by
the object's place in memory, which stays theirs because it is held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import cedarpy

from contract.principal import Principal
from control_plane.cedar_request import entities, uid

if TYPE_CHECKING:
    from control_plane.policy import PolicyAnswer

MAX_PEOPLE: Final = 4_096
MAX_PERMITS: Final = 256

Permitted = tuple[tuple[str, ...], str | None]
"""The policies that permit, in order, and the one that governs the capability."""


@dataclass(frozen=True, slots=True)
class Known:
    """A person in Cedar's form, and with what obligations policies that permit bind this person."""

    principal: Principal
    name: dict[str, str]
    entities: cedarpy.Entities
    _permits: dict[Permitted, PolicyAnswer] = field(default_factory=dict)

    def permit(self, policies: Permitted) -> PolicyAnswer | None:
        """The answer where exactly these policies permitted before."""
        return self._permits.get(policies)

    def keep(self, policies: Permitted, answer: PolicyAnswer) -> None:
        if len(self._permits) >= MAX_PERMITS:
            self._permits.clear()
        self._permits[policies] = answer


class People:
    """The people that one policy set was asked about; all are forgotten when they become too many."""

    def __init__(self) -> None:
        self._held: dict[int, Known] = {}

    def known(self, principal: Principal) -> Known:
        """Raises ``ValueError`` for a value that Cedar cannot hold."""
        held = self._held.get(id(principal))
        if held is not None and held.principal is principal:
            return held
        if len(self._held) >= MAX_PEOPLE:
            self._held.clear()
        made = Known(principal, uid(principal), entities([principal]))
        self._held[id(principal)] = made
        return made
