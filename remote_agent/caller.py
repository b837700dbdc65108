"""Who is on the line: the transport's answer, kept apart from what the grant says."""

from __future__ import annotations

from dataclasses import dataclass, field

from a2a.auth.user import User


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client agent, and the person its assertion names, if any.

    ``person`` is (issuer, tenant, subject). Tasks belong to the two together.
    """

    agent: str
    person: tuple[str, str, str] | None = None
    trace_id: str = ""

    @property
    def owner(self) -> tuple[str, ...]:
        return (self.agent, *(self.person or ()))


class CallerUser(User):
    """A ``Caller`` as the SDK's user."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self.caller.agent


@dataclass(slots=True)
class PresentedGrants:
    """The grant header, held opaquely in the SDK's call context until it is taken out once.

    The SDK may print its context at DEBUG; this prints as nothing.
    """

    _lines: tuple[str, ...] = field(default=(), repr=False)

    def take(self) -> tuple[str, ...]:
        lines, self._lines = self._lines, ()
        return lines
