"""Who is authenticated at the root agent: a person, and no session. ``contract.identity`` has the other two identities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contract.identity import person_user
from contract.ids import AppName, UserId
from contract.principal import AttributeValue
from contract.verdict import NotGranted, Reason

APP_NAME = AppName("root_agent")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A verified person. ``issuer`` and ``subject`` come from a verified identity token only.

    They are the directory's own names of the person where it lists the token's, and the
    token's otherwise. ``attributes`` are what mapped claims of that token state: they fill
    what the directory leaves open (``principals.with_claims``) and are no authority. ``until`` (POSIX seconds) is when
    that token ends, with the difference that clocks may have.
    """

    issuer: str
    subject: str
    scopes: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    until: float = field(default=math.inf, compare=False)

    @property
    def user_id(self) -> UserId:
        """One ADK user per (issuer, subject)."""
        return person_user(self.issuer, self.subject)

    def grant_life(self, most: int, now: float) -> int:
        """For how many seconds a grant may rest on it: ``most``, and no longer than the token. Raises GRANT_EXPIRED."""
        left = min(most, math.floor(min(self.until, now + most)) - math.floor(now))
        if left < 1:
            told = "the identity token ended before a grant could rest on it; sign in again"
            raise NotGranted(Reason.GRANT_EXPIRED, told)
        return left
